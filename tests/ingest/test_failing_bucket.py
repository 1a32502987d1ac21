"""A bucket that fails one call in ten: everything that is stored in the end is complete, and every byte is right."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from obstore.store import S3Store

from headgate.core.errors import ServiceUnavailable
from headgate.ingest.storage.port import ObjectChange
from tests.figures import FULL, Report
from tests.ingest.shelves import ARK, Shelf, bucket_shelf
from tests.proxy import TO_SERVER, Link, Proxy

if TYPE_CHECKING:
    from obstore.store import BackoffConfig

T = TypeVar("T")
OBJECTS, VERSIONS = (100, 3) if FULL else (5, 2)
FAILING = 0.1
BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
METHODS = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ")
#: A store that is unavailable for longer than this is another test.
PATIENCE_SECONDS = 60.0


class FailingProxy(Proxy):
    """Fails some requests: refuses them, or loses the request or its answer."""

    def __init__(self, target: str, chance: random.Random) -> None:
        self._chance = chance
        #: Requests received while it fails some of them.
        self.requests = 0
        self.failing = True
        #: The answer to the first request that writes this name is lost; empty: none is.
        self.loses = b""
        super().__init__(target)

    def _passes(self, link: Link, direction: str, data: bytes) -> bool:
        if (
            direction == TO_SERVER
            and self.loses
            and data.startswith(b"PUT ")
            and self.loses in data.partition(b"\r")[0]
        ):
            self.loses = b""
            link.doomed.append(1)
            self.hits += 1
        elif self.failing and direction == TO_SERVER and data.startswith(METHODS):
            self.requests += 1
            if self._chance.random() < FAILING:
                return self._fail(link)
        elif direction != TO_SERVER and link.doomed:
            return False
        return super()._passes(link, direction, data)

    def _fail(self, link: Link) -> bool:
        self.hits += 1
        how = self._chance.choice(["refused", "lost", "answer lost"])
        if how == "refused":
            link.client.sendall(BUSY)
        if how == "answer lost":
            link.doomed.append(1)
            return True
        return False


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[FailingProxy]:
    with FailingProxy(s3_endpoint, random.Random(time.time_ns())) as proxy:
        yield proxy


def bucket(endpoint: str) -> S3Store:
    """With few and fast retries by the client, so that failures reach the storage too."""
    backoff: BackoffConfig = {
        "init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(milliseconds=20), "base": 2,
    }  # fmt: skip
    return S3Store(
        "shelf", endpoint=endpoint, region="us-east-1", access_key_id="test", secret_access_key="test",
        client_options={"allow_http": True},
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=10), "backoff": backoff},
    )  # fmt: skip


@pytest.mark.torture
@pytest.mark.timeout(900 if FULL else 120)
def test_every_byte_is_kept_by_a_bucket_that_fails(
    proxy: FailingProxy,
    s3_endpoint: str,
    tmp_path: Path,
    report: Report,
) -> None:
    expected: dict[tuple[str, int], bytes] = {}
    tries = 0
    shelf = stored(lambda: bucket_shelf(tmp_path, bucket(proxy.url), tmp_path.name))[0]
    for number in range(OBJECTS):
        name = f"ark:/13030/m5f{number:05d}"
        for version in range(1, VERSIONS + 1):
            content = random.Random(f"{number} {version}").randbytes(20_000)
            change = ObjectChange(shelf.files(a_txt=content, b_txt=b"%d" % version), keep=True)
            found, asked = stored(partial(shelf.put, f"jid{version}", change, name))
            assert found == version, "a version was stored twice, or not at all"
            tries += asked
            expected[name, version] = content
    proxy.failing = False
    wrong = untrue(shelf, expected)
    report(
        store="s3", faults=proxy.hits, hit=proxy.hits, calls=proxy.requests, violations=len(wrong), objects=OBJECTS,
        versions=len(expected), repeats=tries - len(expected),
    )  # fmt: skip
    assert wrong == []
    assert proxy.hits > 0.02 * proxy.requests, "the failures hit nothing"
    assert tries > len(expected) or not FULL, "no failure reached the storage"
    bucket_shelf(tmp_path, bucket(s3_endpoint), tmp_path.name).validate()


def stored(act: Callable[[], T]) -> tuple[T, int]:
    """The result, once there is one, and the number of attempts."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    tries = 0
    while True:
        tries += 1
        try:
            return act(), tries
        except ServiceUnavailable:
            assert time.monotonic() < deadline


def untrue(shelf: Shelf, expected: dict[tuple[str, int], bytes]) -> list[str]:
    """Differences from the stored files."""
    wrong = []
    for (name, version), content in expected.items():
        with shelf.storage.read(name, "a.txt", version) as source:
            if source.read() != content:
                wrong.append(f"{name} version {version}: other bytes")
    for name in {name for name, _ in expected}:
        wrong += [f"{name}: {problem}" for problem in shelf.storage.verify(name)]
    return wrong


def test_a_version_whose_last_answer_was_lost_is_stored(proxy: FailingProxy, tmp_path: Path) -> None:
    """The client retries the request that stores the version, and is refused, since it was carried out."""
    proxy.failing = False
    shelf = bucket_shelf(tmp_path, bucket(proxy.url), tmp_path.name)
    for version in (1, 2):
        proxy.loses = b"/inventory.json"
        assert shelf.put(f"jid{version}", ObjectChange(shelf.files(a_txt=b"%d" % version))) == version
        assert proxy.hits == version
        assert shelf.read("a.txt") == b"%d" % version
    assert shelf.storage.verify(ARK) == []
