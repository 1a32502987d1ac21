"""Three histories read as one: nothing is left out or told twice, whatever the filter and the size of a page."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import headgate
from headgate import BadValue, Gate
from headgate.core.history import Entry
from headgate.service import histories
from headgate.service.histories import Wanted


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A store in which something of every kind has happened, mixed."""
    folder: Path = tmp_path_factory.mktemp("histories")
    with headgate.connect(f"sqlite:///{folder}/headgate.sqlite") as gate:
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
        gate.queue.set_hold("demo", reason="quota", by="ann")
        yield gate


def everything(gate: Gate, which: Wanted, limit: int) -> list[Entry]:
    found: list[Entry] = []
    after = None
    while True:
        told = gate.whole_history(which, after=after, limit=limit)
        assert len(told.entries) <= limit
        found += told.entries
        after = told.next
        if after is None:
            return found


def test_every_size_of_page_tells_all_once_and_newest_first(gate: Gate) -> None:
    whole = everything(gate, Wanted(), 1000)
    books = [gate.history(limit=1000), gate.history(dataid=None, job="clean", limit=1000)]
    assert {entry.noun for entry in whole} == {"lock", "chunk", "job", "batch", "hold"}
    assert sum(entry.noun == "lock" for entry in whole) == len(books[0])
    assert all(later.at >= earlier.at for later, earlier in pairwise(whole))
    for limit in (1, 2, 5, len(whole) - 1, len(whole)):
        assert everything(gate, Wanted(), limit) == whole


@pytest.mark.parametrize(
    "which",
    [
        Wanted(noun="batch"), Wanted(noun="hold"), Wanted(event="grant"), Wanted(client="ann"), Wanted(client="node1"),
        Wanted(resource="file:/3"), Wanted(resource="data:raw/d3"), Wanted(job="clean"), Wanted(dataid="d2"),
        Wanted(item="bid0000000004"), Wanted(noun="lock", event="submit"),
    ],
    ids=str,
)  # fmt: skip
def test_a_filter_gives_what_it_names_of_the_whole(gate: Gate, which: Wanted) -> None:
    def fits(entry: Entry) -> bool:
        wanted = {"noun": entry.noun, "event": entry.event, "client": entry.client, "resource": entry.resource,
                  "job": entry.job, "item": entry.job, "dataid": entry.resource.rpartition("/")[2]}  # fmt: skip
        chosen = {name: getattr(which, name) for name in wanted if getattr(which, name) is not None}
        return all(wanted[name] == value for name, value in chosen.items()) and (
            entry.noun in ("chunk", "job") or not (which.dataid or which.job)
        )

    expected = [entry for entry in everything(gate, Wanted(), 1000) if fits(entry)]
    assert everything(gate, which, 3) == expected


def test_as_of_a_time_and_from_a_time(gate: Gate) -> None:
    whole = everything(gate, Wanted(), 1000)
    for entry in whole[::5]:
        assert everything(gate, Wanted(until=entry.at), 4) == [each for each in whole if each.at <= entry.at]
        assert everything(gate, Wanted(since=entry.at), 4) == [each for each in whole if each.at >= entry.at]
    before_all = whole[-1].at - timedelta(seconds=1)
    assert everything(gate, Wanted(until=before_all), 4) == []


def test_a_rare_thing_is_looked_for_in_portions_and_found(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_LOOKED", 2)
    # No store tells jobs from chunks in its history: the page says how far it came, and the next one goes on.
    first = gate.whole_history(Wanted(noun="job"), limit=1)
    assert (list(first.entries), first.looked_to is None) == ([], False)
    assert [entry.event for entry in everything(gate, Wanted(noun="job"), 1)] == ["unpause", "pause"]
    assert len(everything(gate, Wanted(resource="data:raw/d0"), 1)) == 1


@pytest.mark.parametrize("after", ["", "1", "1.2", "a.b.c", "1.2.3.4", "1.2.-3"])
def test_a_place_that_is_none_is_refused(gate: Gate, after: str) -> None:
    with pytest.raises(BadValue):
        gate.whole_history(Wanted(), after=after)
    with pytest.raises(BadValue):
        gate.whole_history(Wanted(noun="nothing"))
    with pytest.raises(BadValue):
        gate.whole_history(Wanted(event="nothing"))
