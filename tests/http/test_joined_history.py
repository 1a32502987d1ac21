"""The history of two joined stores, page by page: nothing is listed twice, and nothing is left out."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from headgate.core.history import Entry, Happened, HistoryFilter
from headgate.stores.ports.history import MergedHistory
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


def test_pages_of_two_stores_make_up_the_whole_history(joined: Replica) -> None:
    locks = joined.gate.locks
    joined.gate.ledger.define_dataset("raw")
    joined.gate.ledger.publish("raw", ["1", "2"])
    for _ in range(2):
        joined.gate.queue.submit("demo", "bob", "https://example.org/x")
    for number in range(6):
        for resource in (f"data:raw/{number}", f"s3://bucket/{number}"):
            locks.release(locks.acquire("c", resource, "exclusive"))
    with joined.client(joined.gate.tokens.new("reader", ["read"]).token) as client:
        whole = _pages(client, 1000)
        assert len(whole) == 28
        assert {each[0] for each in whole} == {"grant", "release", "publish", "submit"}
        assert sum(each[1].startswith("data:") for each in whole) == 14
        for limit in (1, 2, 3, 5, 7, 27, 28, 29):
            assert _pages(client, limit) == whole, limit
        assert _pages(client, 2, event="release") == [each for each in whole if each[0] == "release"]
        assert _pages(client, 1, resource="s3://bucket/3") == [each for each in whole if each[1] == "s3://bucket/3"]
        assert client.get("/v1/history", params={"after": "5.7"}).status_code == 422


def _pages(client: httpx2.Client, limit: int, **which: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    after: dict[str, str] = {}
    while True:
        page = client.get("/v1/history", params={"limit": limit, **which, **after}).json()
        assert len(page["items"]) <= limit
        found += [(each["event"], each["resource"]) for each in page["items"]]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


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
    history = MergedHistory(*map(Book, books))
    found: list[Entry] = []
    after = None
    for _ in range(20):
        told = history.page(HistoryFilter(limit=limit), after)
        found += told
        after = told.next
        if after is None:
            break
    assert sorted(map(id, found)) == sorted(id(each) for book in books for each in book)
    assert found == list(history.page(HistoryFilter(limit=1000)))


def _entry(number: int, seconds: int) -> Entry:
    return Entry(number, BEGUN + timedelta(seconds=seconds), "lock", "grant", "r", "c", "", number, "", "held")


class Book:
    """Entries in the order of their ids, whatever their times."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def read(self, which: HistoryFilter) -> list[Entry]:
        found = [each for each in reversed(self._entries) if which.before is None or each.id < which.before.id]
        return found[: which.limit]

    def last(self) -> int:
        return len(self._entries)

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        raise NotImplementedError

    def oldest(self) -> datetime | None:
        raise NotImplementedError

    def forget(self, until: datetime, limit: int) -> int:
        raise NotImplementedError
