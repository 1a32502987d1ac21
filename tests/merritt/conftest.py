"""A tree that both sides share."""

from collections.abc import Iterator

import pytest

import headgate
from headgate import Gate
from tests.merritt.other_side import OtherSide
from tests.shared_servers import Servers


@pytest.fixture
def url(servers: Servers) -> Iterator[str]:
    """A separate folder on the shared server."""
    fresh = servers.fresh("zookeeper")
    yield fresh
    servers.drop("zookeeper", fresh)


@pytest.fixture
def other(url: str) -> Iterator[OtherSide]:
    """A process of Merritt's, which has created its nodes."""
    other = OtherSide(url.split("/")[2], "/" + url.rpartition("/")[2])
    other.init_nodes()
    yield other
    other.close()


@pytest.fixture
def gate(url: str, other: OtherSide) -> Iterator[Gate]:
    """Headgate on the same tree."""
    with headgate.connect(f"{url}?spelling=mrt-zk", work_folder="/zfs/queue") as gate:
        yield gate
