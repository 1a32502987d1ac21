"""History is kept for `history_keep`: the oldest entries are removed in small steps."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headgate
from headgate import BadValue, Gate
from headgate.core.daemons import Daemon
from headgate.daemon_wiring import daemon_rounds
from headgate.daemons import history_keeper
from headgate.service import upkeep
from headgate.service.leases.clock import wall
from headgate.service.overview import alarms
from headgate.stores.sql.database.sql_text import Statement
from tests.conftest import STORES
from tests.contract.ledger_steps import database
from tests.faults.mover import shrink

OLDER = Statement("Time passes.", "update hg_history set at = at - :far")
OLDER_LOCKS = Statement("For locks, too.", "update hg_lock set since = since - :far")
OLDER_BATCHES = Statement("And for batches.", "update hg_batch set since = since - :far")
DAY = 86_400 * 1_000_000


def remove_old(gate: Gate) -> int:
    """One round of the daemon, as `headgate daemon history --once` runs it."""
    return sum(rounds.act() for rounds in daemon_rounds(gate, ["history"], 1.0))


def test_the_oldest_history_is_removed_in_steps(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_keeper, "PORTION", 3)
    with headgate.connect(sql_url, history_keep="30d") as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.publish("raw", ["1"])
        held = gate.locks.acquire("ann", "file:/held", "write")
        batch = gate.queue.submit("demo", "bob", "https://example.org/x")
        for number in range(4):
            gate.locks.release(gate.locks.acquire("ann", f"file:/{number}", "write"))
        old = len(gate.history(limit=1000))
        for statement in (OLDER, OLDER_LOCKS, OLDER_BATCHES):
            database(gate).write(lambda tx, statement=statement: tx.run(statement, far=31 * DAY))  # type: ignore[misc]
        young = gate.locks.acquire("ann", "file:/young", "write")
        last = gate.store.history.books[0].last()
        assert remove_old(gate) == old
        assert remove_old(gate) == 0
        assert [entry.lock_id for entry in gate.history()] == [young.id]
        assert gate.store.history.books[0].last() == last
        assert gate.locks.check(held).token == held.token
        assert gate.queue.batch(batch.id).state == "pending"
        # Anything older than the history has no entries, and this is not damage.
        assert [fault.kind for fault in gate.locks.faults()] == []
        gate.locks.release(held)
        assert gate.history(limit=1)[0].id > last


def test_ids_continue_after_all_history_was_removed(sql_url: str) -> None:
    with headgate.connect(sql_url, history_keep="1d") as gate:
        gate.locks.release(gate.locks.acquire("ann", "file:/x", "write"))
        last = gate.store.history.books[0].last()
        database(gate).write(lambda tx: tx.run(OLDER, far=2 * DAY))
        assert remove_old(gate) == 1, "the newest entry stays"
        gate.locks.acquire("ann", "file:/x", "write")
        assert [entry.id for entry in gate.history()] == [last + 1, last]


@pytest.mark.parametrize("keep", ["0", "12h", "never", ""])
def test_less_than_a_day_is_refused(tmp_path: Any, keep: str) -> None:
    with pytest.raises(BadValue, match="history_keep"):
        headgate.connect(f"sqlite:///{tmp_path}/a.db", history_keep=keep)


def test_by_default_all_history_is_kept(tmp_path: Any) -> None:
    with headgate.connect(f"sqlite:///{tmp_path}/a.db", log_keep_for="forever") as gate:
        assert [rounds.idle != "" for rounds in daemon_rounds(gate, ["history"], 1.0)] == [True]
        since = datetime.now(UTC) - timedelta(days=36_500)
        assert gate.store.history.books[0].forget(since, 10) == 0


def pass_time(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """The gate believes that this many days have passed."""
    for module in (alarms, upkeep, history_keeper):
        monkeypatch.setattr(module, "wall", lambda: wall() + timedelta(days=days))


@pytest.mark.parametrize("kind", STORES)
def test_history_that_should_have_been_removed_raises_an_alarm(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch.setattr)  # On ZooKeeper the newest folders stay.
    with headgate.connect(store_url, history_keep="30d") as gate:
        assert gate.alarms() == [], "there is no history yet"
        for _ in range(10):
            gate.locks.release(gate.locks.acquire("ann", "file:/x", "write"))
        assert gate.upkeep.history_overdue() < timedelta()
        pass_time(monkeypatch, 31.9)
        assert gate.alarms() == [], "cron may have missed a day"
        pass_time(monkeypatch, 33)
        (alarm,) = gate.alarms()
        assert (alarm.kind, alarm.item, alarm.command) == ("overdue-history", "history", "headgate daemon history")
        assert alarm.what == (
            "history should have been removed 3 d ago (`history_keep`), and no history daemon is running"
        )
        gate.queue.presence.sign_on(Daemon("d", "d", ("history",), 60))
        (alarm,) = gate.alarms()
        assert alarm.command == "headgate daemon history --once", "it runs, and does not keep up"
        assert gate.upkeep.history_overdue().days in (2, 3), "a server's clock may be ahead of ours"


@pytest.mark.parametrize("kind", STORES)
def test_the_alarm_ends_when_all_that_is_overdue_is_removed(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch.setattr)
    monkeypatch.setattr(history_keeper, "PORTION", 3)
    with headgate.connect(store_url, history_keep="30d") as gate:
        for _ in range(10):
            gate.locks.release(gate.locks.acquire("ann", "file:/x", "write"))
        pass_time(monkeypatch, 33)
        (book,) = gate.store.history.books
        assert history_keeper.step(book, timedelta(days=30).total_seconds(), 3) == 3
        assert [alarm.kind for alarm in gate.alarms()] == ["overdue-history"]
        remove_old(gate)
        assert gate.alarms() == [], "what always stays is not overdue"
        assert len(gate.history()) > 0


def test_history_that_is_kept_forever_is_never_overdue(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with headgate.connect(f"sqlite:///{tmp_path}/a.db") as gate:
        gate.locks.release(gate.locks.acquire("ann", "file:/x", "write"))
        pass_time(monkeypatch, 36_500)
        assert gate.alarms() == []
        assert gate.upkeep.history_overdue() == timedelta()
