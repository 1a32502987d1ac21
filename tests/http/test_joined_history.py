"""The history of locks where two stores are joined, page by page: nothing twice, and nothing left out."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx2
import pytest

from headgate.core.history import Entry
from headgate.service.histories import read_locks
from headgate.stores.base import HistoryFilter
from tests.conftest import fresh_store
from tests.http.replicas import Replica, replica
from tests.shared_servers import Servers

BEGUN = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture
def joined(servers: Servers, tmp_path: Path) -> Iterator[Replica]:
    """SQLite beside the ledger, ZooKeeper for all other locks."""
    for coordination in fresh_store("zookeeper", servers, tmp_path):
        with replica(f"sqlite:///{tmp_path}/headgate.sqlite", coordination_url=coordination) as found:
            yield found


def test_pages_of_two_stores_are_the_whole(joined: Replica) -> None:
    locks = joined.gate.locks
    for number in range(6):
        for resource in (f"data:raw/{number}", f"s3://bucket/{number}"):
            locks.release(locks.acquire("c", resource, "exclusive"))
    with joined.client(joined.gate.tokens.new("reader", ["read"]).token) as client:
        whole = _pages(client, 1000)
        assert len(whole) == 24
        assert {each[0] for each in whole} == {"grant", "release"}
        assert sum(each[1].startswith("data:") for each in whole) == 12
        for limit in (1, 2, 3, 5, 7, 23, 24, 25):
            assert _pages(client, limit) == whole, limit
        assert _pages(client, 2, event="release") == [each for each in whole if each[0] == "release"]
        assert _pages(client, 1, resource="s3://bucket/3") == [each for each in whole if each[1] == "s3://bucket/3"]
        assert client.get("/v1/history", params={"after": "5"}).status_code == 422


def _pages(client: httpx2.Client, limit: int, **which: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    before: dict[str, str] = {}
    while True:
        page = client.get("/v1/history", params={"limit": limit, **which, **before}).json()
        assert len(page["items"]) <= limit
        found += [(each["event"], each["resource"]) for each in page["items"]]
        if page["next"] is None:
            return found
        before = {"after": page["next"]}


@pytest.mark.parametrize(
    "seconds",
    [
        ([0, 1, 1, 1, 2], [1, 1, 1, 3]),
        ([5, 4, 6, 2, 2], [3, 3, 7]),  # A clock that was set back.
        ([], [1, 1]),
        ([0] * 5, [0] * 5),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_equal_times_and_clocks_that_go_back(seconds: tuple[list[int], list[int]], limit: int) -> None:
    books = [[_entry(number + 1, at) for number, at in enumerate(times)] for times in seconds]
    asks = [partial(_asked, book) for book in books]
    found: list[Entry] = []
    after = None
    for _ in range(20):
        told = read_locks(asks, HistoryFilter(limit=limit), after)
        found += told.entries
        after = told.next
        if after is None:
            break
    assert sorted(map(id, found)) == sorted(id(each) for book in books for each in book)
    assert found == list(read_locks(asks, HistoryFilter(limit=1000)).entries)


def _entry(number: int, seconds: int) -> Entry:
    return Entry(number, BEGUN + timedelta(seconds=seconds), "lock", "grant", "r", "c", "", number, "", "held")


def _asked(book: list[Entry], which: HistoryFilter) -> list[Entry]:
    found = [each for each in reversed(book) if which.before is None or each.id < which.before]
    return found[: which.limit]
