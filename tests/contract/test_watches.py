"""Watchers: turns, files that are counted once, and the effect of a change; on every store that keeps a ledger."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import Gate, UnknownName
from headgate.core.alarms import AlarmFacts, find_alarms
from headgate.core.ledger.watches.model import FileMark, Landing, OnChange, Parcel, Sighting
from headgate.core.ledger.watches.parsing import parse_watch
from headgate.daemons.watching.places import FolderPlace, Found
from headgate.daemons.watching.watcher import FileWatcher
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import WHY, claimed, one_job, status_of, told
from tests.waiting import until

pytestmark = pytest.mark.parametrize("kind", SQL_STORES)
#: Far longer than a test takes, and then immediately expired.
LONG, SHORT = 600.0, 0.05


def seen(worker: str = "one", lease: float = LONG, **more: Any) -> Sighting:
    return Sighting("raw", "/data/in", "{x}.csv", worker, lease, 2.0, None, **more)


def parcel(dataid: str, *files: tuple[str, int]) -> Parcel:
    return Parcel(dataid, tuple(FileMark(name, size, 1000) for name, size in files))


def landings(gate: Gate, parcels: list[Parcel], on_change: OnChange = OnChange.NOTE, token: int = 1) -> list[str]:
    found = gate.watches.land("raw", token, parcels, on_change)
    assert found is not None
    return [each.landing for each in found]


def publishes(gate: Gate, dataid: str) -> int:
    return sum(event == "publish" for event, _, _ in told(gate, "external", dataid))


def test_one_worker_watches_and_another_takes_over_when_it_ends(gate: Gate) -> None:
    one_job(gate)
    watches = gate.watches
    assert watches.take_turn(seen()) == (1, "one")
    assert watches.take_turn(seen()) == (1, "one"), "it renews"
    assert watches.take_turn(seen("two")) == (None, "one")
    watches.end_turn("raw", "one", 0)
    assert watches.take_turn(seen("two")).token is None, "an earlier turn ends nothing"
    watches.end_turn("raw", "one", 1)
    assert watches.take_turn(seen("two")) == (2, "two")
    assert watches.land("raw", 1, [parcel("1", ("1.csv", 1))], OnChange.NOTE) is None, "the first one's turn is over"
    assert status_of(gate.ledger, "raw", "1", "external") == "absent"
    with pytest.raises(UnknownName, match="raw"):
        watches.take_turn(Sighting("rwa", "/in", "{x}", "one", LONG, 2.0, None))


def test_forgetting_a_watcher_ends_its_turn_for_good(gate: Gate) -> None:
    """Even if it was only paused, and is the first one of the dataset."""
    one_job(gate)
    assert gate.watches.take_turn(seen()).token == 1
    assert landings(gate, [parcel("1", ("1.csv", 1))]) == [Landing.PUBLISHED]
    gate.watches.forget("raw", reason=WHY)
    assert gate.watches.land("raw", 1, [parcel("2", ("2.csv", 1))], OnChange.NOTE) is None
    assert gate.watches.list() == []
    token = gate.watches.take_turn(seen("two")).token
    assert token is not None
    assert token > 1
    assert gate.watches.land("raw", 1, [parcel("2", ("2.csv", 1))], OnChange.NOTE) is None
    (watcher,) = gate.watches.list()
    assert (watcher.worker, watcher.files, watcher.looked, watcher.arrived) == ("two", 0, None, None)
    assert [each.mark.name for each in gate.watches.counted("raw")] == ["1.csv"]


def test_a_dead_watcher_is_replaced_when_its_lease_has_expired(gate: Gate) -> None:
    one_job(gate)
    assert gate.watches.take_turn(seen(lease=SHORT)).token == 1
    turn = None
    while turn is None:
        turn = gate.watches.take_turn(seen("two")).token
    assert turn == 2
    assert gate.watches.take_turn(seen()) == (None, "two")


def test_a_slow_watcher_keeps_its_turn_while_nobody_else_takes_it(gate: Gate) -> None:
    one_job(gate)
    assert gate.watches.take_turn(seen(lease=0.000_001)).token == 1
    until(lambda: not gate.watches.list()[0].alive, "the lease to expire")
    assert gate.watches.take_turn(seen(lease=0.000_001, token=1)).token == 1
    until(lambda: not gate.watches.list()[0].alive, "the lease to expire")
    assert gate.watches.take_turn(seen()).token == 2, "it has started again"
    gate.watches.end_turn("raw", "one", 2)
    assert gate.watches.take_turn(seen("two")).token == 3
    gate.watches.end_turn("raw", "two", 3)
    assert gate.watches.take_turn(seen(token=2)).token == 4, "another one had it meanwhile"


def test_files_are_published_once_and_the_same_content_does_nothing(gate: Gate) -> None:
    one_job(gate)
    gate.watches.take_turn(seen())
    both = [parcel("1", ("1.csv", 1)), parcel("2", ("2.csv", 1))]
    assert landings(gate, both) == [Landing.PUBLISHED] * 2
    assert landings(gate, [*both, parcel("3", ("3.csv", 1))]) == [Landing.SAME, Landing.SAME, Landing.PUBLISHED]
    assert [publishes(gate, dataid) for dataid in "123"] == [1, 1, 1]
    assert sorted(each.mark.name for each in gate.watches.counted("raw")) == ["1.csv", "2.csv", "3.csv"]
    (watcher,) = gate.watches.list()
    assert (watcher.files, watcher.changed, watcher.alive) == (3, 0, True)
    assert watcher.arrived is not None


def test_a_tag_decides_where_there_is_one(gate: Gate) -> None:
    one_job(gate)
    gate.watches.take_turn(seen())
    for modified, tag, landing in ((1, "a", Landing.PUBLISHED), (2, "a", Landing.SAME), (2, "b", Landing.NOTED)):
        files = (FileMark("1.csv", 5, modified, tag),)
        assert landings(gate, [Parcel("1", files)]) == [landing]


@pytest.mark.parametrize(
    ("on_change", "landing", "made"),
    [
        (OnChange.NOTE, Landing.NOTED, "READY"),
        (OnChange.REDO, Landing.REDONE, "RESUBMIT"),
        (OnChange.IGNORE, Landing.IGNORED, "READY"),
    ],
)
def test_other_content_is_recorded_and_handled_as_defined(
    gate: Gate, on_change: OnChange, landing: Landing, made: str
) -> None:
    ledger = one_job(gate)
    gate.watches.take_turn(seen())
    landings(gate, [parcel("1", ("1.csv", 1))])
    for job in ("clean", "report"):
        ledger.success(claimed(ledger, job))
    assert landings(gate, [parcel("1", ("1.csv", 2))], on_change) == [landing]
    assert landings(gate, [parcel("1", ("1.csv", 2))], on_change) == [Landing.SAME]
    assert status_of(ledger, "raw", "1", "external") == "READY"
    assert [status_of(ledger, *which) for which in (("tidy", "1", "clean"), ("rep", "1", "report"))] == [made] * 2
    (file,) = gate.watches.counted("raw")
    assert (file.mark.size, file.changes) == (2, 1)
    reasons = [each.reason for each in gate.history(job="external", dataid="1") if each.reason]
    assert reasons == ([] if on_change is OnChange.IGNORE else ["delivered again with other content: 1.csv"])


@pytest.mark.parametrize(("on_late", "status"), [("note", "READY"), ("redo", "RESUBMIT")])
def test_jobs_with_mapped_inputs_handle_other_content_by_on_late(gate: Gate, on_late: str, status: str) -> None:
    ledger = one_job(gate)
    days = {"kind": "split", "format": "{month}.{day}", "job_format": "{month}", "need": "any", "on_late": on_late}
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], maps={"raw": {**days, "late_delay": 600}})
    gate.watches.take_turn(seen())
    landings(gate, [parcel("11.14", ("11.14.csv", 1))])
    ledger.success(claimed(ledger, "clean"))
    assert landings(gate, [parcel("11.14", ("11.14.csv", 2))]) == [Landing.NOTED]
    assert ledger.find_next("clean") is None, "a redo waits for more that is late"
    (row,) = ledger.status("tidy", "clean", "11", kind="OUTPUT")
    assert (row.status, "raw/11.14 arrived or changed after it was read" in row.message) == (status, True)


def test_a_refused_change_stays_as_it_is_and_is_retried(gate: Gate) -> None:
    ledger = one_job(gate)
    gate.watches.take_turn(seen())
    landings(gate, [parcel("1", ("1.csv", 1))])
    claim = claimed(ledger, "clean")
    changed, new = parcel("1", ("1.csv", 2)), parcel("2", ("2.csv", 1))
    assert landings(gate, [changed, new], OnChange.REDO) == [Landing.REFUSED, Landing.PUBLISHED], "a worker is on it"
    ledger.success(claim)
    assert landings(gate, [changed], OnChange.REDO) == [Landing.REDONE]
    assert status_of(ledger, "tidy", "1", "clean") == "RESUBMIT"


def test_a_chunk_that_a_job_makes_is_not_published_and_does_not_keep_others_back(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    gate.watches.take_turn(Sighting("tidy", "/in", "{x}", "one", LONG, 2.0, None))
    found = gate.watches.land("tidy", 1, [parcel("1", ("1", 1)), parcel("2", ("2", 1))], OnChange.NOTE)
    assert found is not None
    assert [each.landing for each in found] == [Landing.REFUSED, Landing.PUBLISHED]
    assert "produced by job clean" in found[0].why
    assert [each.mark.name for each in gate.watches.counted("tidy")] == ["2"]


def test_a_hold_of_an_operator_is_not_lifted_by_a_new_delivery(gate: Gate) -> None:
    ledger = one_job(gate)
    gate.watches.take_turn(seen())
    landings(gate, [parcel("1", ("1.csv", 1))])
    ledger.set_status("raw", "1", "external", "OUTPUT", "HOLD", reason=WHY)
    assert landings(gate, [parcel("1", ("1.csv", 2))]) == [Landing.REFUSED]
    assert status_of(ledger, "raw", "1", "external") == "HOLD"


def test_a_file_of_another_chunk_by_an_earlier_pattern_is_published_again(gate: Gate) -> None:
    one_job(gate)
    gate.watches.take_turn(seen())
    assert landings(gate, [parcel("1", ("1.csv", 1))]) == [Landing.PUBLISHED]
    assert landings(gate, [parcel("one", ("1.csv", 1))]) == [Landing.PUBLISHED]
    (file,) = gate.watches.counted("raw")
    assert file.dataid == "one"


def test_a_watcher_that_is_silent_quiet_or_in_trouble_raises_an_alarm(gate: Gate) -> None:
    one_job(gate)
    gate.watches.take_turn(Sighting("raw", "/in", "{x}", "one", 30.0, 2.0, 3600.0, looked=True))
    assert [each.kind for each in gate.alarms()] == []
    (watcher,) = gate.watches.list()
    for late, kinds in ((59, []), (61, ["watcher"])):
        facts = AlarmFacts(at=watcher.since + timedelta(seconds=late), watchers=[watcher])
        assert [each.kind for each in find_alarms(facts)] == kinds
    gate.watches.take_turn(Sighting("raw", "/in", "{x}", "one", LONG, 2.0, 60.0, problem="cannot be listed"))
    (alarm,) = gate.alarms()
    assert alarm.what == "the watcher of raw (/in): cannot be listed"
    gate.watches.take_turn(Sighting("raw", "/in", "{x}", "one", LONG, 2.0, 60.0))
    (watcher,) = gate.watches.list()
    (alarm,) = find_alarms(AlarmFacts(at=watcher.since + timedelta(seconds=61), watchers=[watcher]))
    assert (alarm.kind, alarm.item) == ("quiet-watcher", "raw")
    gate.watches.forget("raw", reason=WHY)
    assert gate.watches.list() == []
    with pytest.raises(UnknownName, match="no dataset is watched"):
        gate.watches.forget("raw", reason=WHY)


# ---------------------------------------------------------------- a watcher on a folder


class Clock:
    """A clock that the test drives."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def make(gate: Gate, inbox: Path, clock: Clock) -> Callable[..., FileWatcher]:
    """Creates a watcher of `raw` on the folder, with a different worker each time."""
    one_job(gate)

    def made(worker: str = "one", **keys: Any) -> FileWatcher:
        watch = parse_watch("raw", {"folder": str(inbox), "pattern": "{x}.csv", **keys})
        place = FolderPlace(inbox, watch.depth)
        return FileWatcher(gate.watches, watch, place, worker=worker, lease=LONG, clock=clock)

    return made


def test_a_file_counts_when_it_has_not_changed_for_the_stated_time(
    gate: Gate, make: Callable[..., FileWatcher], inbox: Path, clock: Clock
) -> None:
    watcher = make(settle=10)
    (inbox / "a.csv").write_text("half")
    assert watcher.look() == 0
    clock.now += 9
    with (inbox / "a.csv").open("a") as file:
        file.write(" and the rest")
    assert watcher.look() == 0
    clock.now += 9.9
    assert (watcher.look(), watcher.waiting) == (0, 1), "it counts from the last change on"
    clock.now += 0.1
    assert (watcher.look(), watcher.waiting) == (1, 0)
    assert publishes(gate, "a") == 1
    clock.now += 100
    os.utime(inbox / "a.csv", (5, 5))
    assert watcher.look() == 0
    clock.now += 10
    watcher.look()
    assert [each.changes for each in gate.watches.counted("raw")] == [1], "another time is another delivery"


def test_a_file_that_changes_between_scan_and_publish_waits(
    gate: Gate, make: Callable[..., FileWatcher], inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = make(settle=1)
    (inbox / "a.csv").write_text("half")
    watcher.look()
    clock.now += 1
    find = FolderPlace.find

    def find_and_write(place: FolderPlace, pause: Callable[[], None]) -> Found:
        found = find(place, pause)
        (inbox / "a.csv").write_text("more than half")
        return found

    monkeypatch.setattr(FolderPlace, "find", find_and_write)
    assert watcher.look() == 0
    monkeypatch.undo()
    assert watcher.look() == 0
    assert publishes(gate, "a") == 0


def test_an_unreadable_subfolder_or_file_does_not_block_others(
    gate: Gate, make: Callable[..., FileWatcher], inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed/a.csv", "open/b.csv", "lost+found/c.csv"):
        (inbox / name).parent.mkdir()
        (inbox / name).write_text("x")
    (inbox / "open/d.csv").symlink_to("nowhere")
    scandir = os.scandir

    def refuse(folder: str) -> Any:
        if folder == str(inbox / "closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    watcher = make(ready="whole", pattern="{y}/{x}.csv", id="{y}.{x}")
    assert watcher.look() == 1
    assert [each.dataid for each in gate.watches.counted("raw")] == ["open.b"]
    assert gate.watches.list()[0].problem == f"{inbox / 'closed'}: cannot be listed: Permission denied"
    monkeypatch.undo()
    assert watcher.look() == 1
    assert gate.watches.list()[0].problem == ""


def test_a_file_in_an_unreadable_folder_is_reported(
    make: Callable[..., FileWatcher], inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inbox / "a.csv").write_text("x")

    def refuse(_entry: object) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("headgate.daemons.watching.places._stat", refuse)
    watcher = make(ready="whole")
    assert watcher.look() == 0
    assert watcher.problem == f"{inbox / 'a.csv'}: cannot be read: Permission denied"


def test_the_pause_depends_on_the_scan_and_not_on_publishing(
    gate: Gate, make: Callable[..., FileWatcher], inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = make(ready="whole", every=2)
    find, land = FolderPlace.find, gate.watches.land

    def find_slowly(place: FolderPlace, pause: Callable[[], None]) -> Found:
        clock.now += 1.5
        return find(place, pause)

    def land_slowly(*given: Any) -> Any:
        clock.now += 100
        return land(*given)

    monkeypatch.setattr(FolderPlace, "find", find_slowly)
    monkeypatch.setattr(gate.watches, "land", land_slowly)
    (inbox / "a.csv").write_text("x")
    assert watcher.act() == 1, "it looks"
    (inbox / "b.csv").write_text("x")
    assert watcher.act() == 1, "publishing took longer than the pause"
    clock.now -= 98.6  # From the start of the poll to 2.9 seconds after it.
    (inbox / "c.csv").write_text("x")
    assert watcher.act() == 0
    clock.now += 0.2
    assert watcher.act() == 1, "the look took 1.5 seconds: twice as long is over"


def test_a_watcher_is_called_more_often_than_it_scans(make: Callable[..., FileWatcher]) -> None:
    assert make(every=2).rounds.interval == 0.5, "so that a round that comes early delays no look by a whole one"


def test_files_that_are_renamed_into_place_count_at_once_and_temporary_ones_never(
    make: Callable[..., FileWatcher], inbox: Path, clock: Clock
) -> None:
    watcher = make(ready="whole")
    for name in (".a.csv", "a.csv.part", "~a.tmp"):
        (inbox / name).write_text("x")
    assert (watcher.look(), watcher.waiting) == (0, 0)
    (inbox / "a.csv.part").rename(inbox / "a.csv")
    assert watcher.look() == 1


def test_a_marker_makes_a_file_count_at_the_next_scan(
    make: Callable[..., FileWatcher], inbox: Path, clock: Clock
) -> None:
    watcher = make(ready="marker")
    (inbox / "a.csv").write_text("x")
    assert (watcher.look(), watcher.waiting) == (0, 1)
    (inbox / "a.csv.done").touch()
    assert watcher.look() == 0, "files that came with it may have been missed"
    clock.now += 2
    assert watcher.look() == 1


def test_a_standby_watcher_continues_where_the_first_one_stopped(
    gate: Gate, make: Callable[..., FileWatcher], inbox: Path, clock: Clock
) -> None:
    first, second = make(ready="whole"), make("two", ready="whole")
    (inbox / "a.csv").write_text("x")
    assert (first.look(), second.look(), second.other) == (1, 0, "one")
    (inbox / "b.csv").write_text("x")
    first.stop()
    assert second.look() == 1, "a.csv was counted"
    assert first.look() == 0
    assert [publishes(gate, dataid) for dataid in "ab"] == [1, 1]


def test_a_watcher_reports_its_problem(gate: Gate, make: Callable[..., FileWatcher], inbox: Path, clock: Clock) -> None:
    watcher = make(ready="whole", pattern="{a}-{b}.csv", id="{a}.{b}")
    (inbox / "x-y-z.csv").write_text("x")
    watcher.look()
    assert "two ways" in gate.watches.list()[0].problem
    (inbox / "x-y-z.csv").unlink()
    inbox.rmdir()
    watcher.look()
    assert "cannot be listed: No such file" in gate.watches.list()[0].problem
    inbox.mkdir()
    watcher.look()
    assert gate.watches.list()[0].problem == ""
