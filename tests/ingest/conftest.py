"""Fixtures of the ingest tests: a web server that may misbehave, and rules that let it be reached."""

from collections.abc import Iterator

import pytest

from headgate.ingest.fetch import Fetcher
from headgate.ingest.guard import Rules
from tests.ingest.origin import Origin, serving


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving() as found:
        yield found


@pytest.fixture
def rules(origin: Origin) -> Rules:
    """Loopback's first address, one port, and little patience."""
    return Rules(
        schemes=frozenset({"http", "https", "file"}),
        ports=frozenset({origin.port}),
        private_networks=("127.0.0.1/32",),
        connect_seconds=5.0,
        answer_seconds=5.0,
        idle_seconds=5.0,
    )


@pytest.fixture
def fetcher(rules: Rules) -> Iterator[Fetcher]:
    with Fetcher(rules) as found:
        yield found
