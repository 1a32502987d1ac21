"""One history for all nouns: no entry is missing or repeated, for every filter and page size."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

import headgate
from headgate import BadValue, Gate
from headgate.core.history import Entry
from tests.conftest import SQL_STORES, fresh_store
from tests.shared_servers import Servers


@pytest.fixture(scope="module", params=SQL_STORES)
def gate(request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A store with events of every kind, mixed."""
    for url in fresh_store(request.param, servers, tmp_path_factory.mktemp("history")):
        with headgate.connect(url) as gate:
            fill(gate)
            yield gate


def fill(gate: Gate) -> None:
    gate.ledger.define_dataset("raw")
    gate.ledger.define_dataset("tidy")
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    gate.ledger.pause("clean", reason="not yet", by="ann")
    gate.ledger.unpause("clean", by="ann")
    for number in range(7):
        gate.ledger.publish("raw", [f"d{number}"])
        lock = gate.locks.acquire("ann", f"file:/{number}", "exclusive")
        gate.queue.submit("demo", "bob", "https://example.org/x")
        gate.locks.release(lock)
        claim = gate.ledger.find_next("clean", worker="node1")
        assert claim
        gate.ledger.success(claim)
    gate.locks.release(gate.locks.acquire("ann", "data:raw/d3", "shared"))
    gate.queue.set_hold("demo", reason="quota", by="ann")


def everything(gate: Gate, limit: int = 1000, **which: Any) -> list[Entry]:
    found: list[Entry] = []
    after = None
    while True:
        page = gate.history(**which, after=after, limit=limit)
        assert len(page) <= limit
        found += page
        after = page.next
        if after is None:
            return found


def test_every_size_of_page_reports_all_once_and_newest_first(gate: Gate) -> None:
    whole = everything(gate)
    assert {entry.noun for entry in whole} == {"lock", "chunk", "job", "batch", "hold"}
    assert len({(entry.at, entry.id) for entry in whole}) == len(whole)
    assert all(later.at >= earlier.at for later, earlier in pairwise(whole))
    for limit in (1, 2, 5, len(whole) - 1, len(whole)):
        assert everything(gate, limit) == whole


@pytest.mark.parametrize(
    "which",
    [
        {"noun": "batch"}, {"noun": "hold"}, {"noun": "job"}, {"event": "grant"}, {"client": "ann"},
        {"client": "node1"}, {"resource": "file:/3"}, {"resource": "data:raw/d3"}, {"job": "clean"}, {"dataid": "d2"},
        {"item": "bid0000000004"}, {"noun": "lock", "event": "submit"},
    ],
    ids=str,
)  # fmt: skip
def test_a_filter_returns_the_matching_entries(gate: Gate, which: dict[str, str]) -> None:
    def fits(entry: Entry) -> bool:
        told = {"noun": entry.noun, "event": entry.event, "client": entry.client, "resource": entry.resource,
                "job": entry.job, "item": entry.job, "dataid": entry.resource.rpartition("/")[2]}  # fmt: skip
        of_chunks = entry.noun in ("chunk", "job") or not {"dataid", "job"} & set(which)
        return of_chunks and all(told[name] == value for name, value in which.items())

    expected = [entry for entry in everything(gate) if fits(entry)]
    assert everything(gate, 3, **which) == expected
    assert expected or len(which) > 1


def test_as_of_a_time_and_from_a_time(gate: Gate) -> None:
    whole = everything(gate)
    for entry in whole[::7]:
        assert everything(gate, 9, until=entry.at) == [each for each in whole if each.at <= entry.at]
        assert everything(gate, 9, since=entry.at) == [each for each in whole if each.at >= entry.at]
    assert everything(gate, 4, until=whole[-1].at - timedelta(seconds=1)) == []


@pytest.mark.parametrize("after", ["", "1", "a.b", "1.2.3", "1.2_3.4", "1.-3", "1.\u0663"])
def test_a_malformed_cursor_is_refused(gate: Gate, after: str) -> None:
    with pytest.raises(BadValue, match="after"):
        gate.history(after=after)


def test_unknown_words_are_refused(gate: Gate) -> None:
    with pytest.raises(BadValue, match="noun"):
        gate.history(noun="nothing")
    with pytest.raises(BadValue, match="event"):
        gate.history(event="nothing")
