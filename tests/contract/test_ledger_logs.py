"""The output of an attempt is stored with it: by the holder of the claim, the latest text of each stream, for the set
time.
"""

from datetime import timedelta

import pytest

from headgate import BadValue, ClaimLost, Gate, UnknownName
from headgate.core.ledger.model import ERROR, RUNNING
from headgate.core.logs import LONGEST_TEXT, MOST_LOGGED, Log, LogStream, LogText
from headgate.daemon_wiring import daemon_rounds
from headgate.daemons import history_keeper
from headgate.service.leases.clock import wall
from headgate.service.ledger.use_cases import Ledger
from headgate.stores.sql.database.sql_text import Statement
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, expire, one_job
from tests.contract.over_http import HTTP, behind
from tests.contract.steps import Gates

ALL = pytest.mark.parametrize("kind", [*SQL_STORES, HTTP])
OLDER = Statement("Time passes.", "update hg_log set at = at - :far where subject = :dataid")
DAY = 86_400 * 1_000_000


def out(text: str, size: int | None = None) -> LogText:
    return LogText(LogStream.STDOUT, text, len(text) if size is None else size)


def err(text: str) -> LogText:
    return LogText(LogStream.STDERR, text, len(text))


def short(logs: list[Log]) -> list[tuple[int, str, str, bool]]:
    return [(each.attempt, each.stream.value, each.text, each.ended) for each in logs]


@pytest.fixture
def ledger(gate: Gate) -> Ledger:
    one_job(gate)
    gate.ledger.publish("raw", ["1", "2"])
    return gate.ledger


@ALL
def test_a_log_is_kept_with_its_attempt(ledger: Ledger) -> None:
    first = ledger.claim("clean", "1")
    assert list(ledger.logs("clean", "1")) == []
    ledger.keep_log(first, [out("one\n"), err("oh\n")])
    ledger.keep_log(first, [out("one\ntwo\n")])
    assert short(list(ledger.logs("clean", "1"))) == [(1, "stdout", "one\ntwo\n", False), (1, "stderr", "oh\n", False)]
    ledger.keep_log(first, [out("one\ntwo\nthree\n"), err("oh\n")], ended=True)
    ledger.fail(first, "exit code 1: oh")
    second = ledger.claim("clean", "1")
    ledger.keep_log(second, [err("again\n")], ended=True)
    ledger.success(second)
    found = list(ledger.logs("clean", "1"))
    assert short(found) == [
        (2, "stderr", "again\n", True), (1, "stdout", "one\ntwo\nthree\n", True), (1, "stderr", "oh\n", True),
    ]  # fmt: skip
    assert [each.token for each in found] == [second.token, first.token, first.token]
    assert abs(found[0].at - wall()) < timedelta(minutes=1)
    assert short(list(ledger.logs("clean", "1", attempt=1, stream="stderr"))) == [(1, "stderr", "oh\n", True)]
    assert len(ledger.logs("clean", "1", limit=1)) == 1
    assert list(ledger.logs("clean", "2")) == []


@ALL
def test_a_text_that_arrives_late_replaces_nothing(gate: Gate, ledger: Ledger) -> None:
    claim = ledger.claim("clean", "1")
    ledger.keep_log(claim, [out("one\ntwo\n")])
    ledger.keep_log(claim, [out("one\n")])
    assert [each.text for each in ledger.logs("clean", "1")] == ["one\ntwo\n"]
    ledger.keep_log(claim, [out("one\ntwo\n")], ended=True)
    ledger.keep_log(claim, [out("one\ntwo\nthree\n")])
    assert short(list(ledger.logs("clean", "1"))) == [(1, "stdout", "one\ntwo\n", True)]


@ALL
def test_only_the_newest_claim_has_its_log_kept(gate: Gate, ledger: Ledger) -> None:
    lost = ledger.claim("clean", "1")
    ledger.keep_log(lost, [out("mine\n")])
    expire(gate, "1")
    new = ledger.claim("clean", "1")
    with pytest.raises(ClaimLost):
        ledger.keep_log(lost, [out("mine\nand more\n")])
    with pytest.raises(ClaimLost):
        ledger.keep_log("clean", [out("x\n")], "1", new.token + 1000)
    with pytest.raises(UnknownName):
        ledger.keep_log("no-such-job", [out("x\n")], "1", new.token)
    ledger.keep_log(new, [out("new\n")])
    assert [each.text for each in ledger.logs("clean", "1")] == ["new\n", "mine\n"]


@ALL
def test_the_last_line_of_a_worker_is_seen_while_it_runs_and_after_it_died(gate: Gate, ledger: Ledger) -> None:

    def message() -> tuple[str, str]:
        (row,) = ledger.status("tidy", "clean", "1", kind="OUTPUT")
        return row.status, row.message

    claim = ledger.claim("clean", "1", worker="ann")
    assert message() == (RUNNING, "")
    ledger.keep_log(claim, [out("at step 1\n"), err("\n")])
    assert message() == (RUNNING, "at step 1")
    ledger.keep_log(claim, [out("at step 1\nat step 1b\n"), err("\nthe disk is nearly full\n")])
    assert message() == (RUNNING, "the disk is nearly full")
    ledger.keep_log(claim, [out("at step 1\nat step 1b\nat step 2\n")])
    assert "at step 2" in ledger.explain("clean", "1").sentence()
    expire(gate, "1")
    assert ledger.reap() == 1
    assert message() == (ERROR, "lease expired: ann died; its last line: at step 2")
    assert [row.message for row in ledger.failures()] == ["lease expired: ann died; its last line: at step 2"]


@ALL
def test_many_dead_workers_keep_a_last_line_each(gate: Gate, ledger: Ledger) -> None:
    for dataid in ("1", "2"):
        claim = ledger.claim("clean", dataid, worker="ann")
        ledger.keep_log(claim, [out(f"line of {dataid}\n")])
        expire(gate, dataid)
    assert ledger.reap() == 2
    rows = ledger.status("tidy", "clean", kind="OUTPUT")
    assert [row.message.partition("; its last line: ")[2] for row in rows] == ["line of 1", "line of 2"]


@ALL
def test_the_reason_of_a_forced_claim_stays(gate: Gate, ledger: Ledger) -> None:
    claim = ledger.force("clean", "1", reason="by hand")
    ledger.keep_log(claim, [out("a line\n")])
    expire(gate, "1")
    ledger.reap()
    (row,) = ledger.status("tidy", "clean", "1", kind="OUTPUT")
    assert "a line" not in row.message


@ALL
def test_a_job_that_makes_nothing_has_logs_too(gate: Gate, ledger: Ledger) -> None:
    ledger.define_job("notify", inputs=["raw"])
    claim = ledger.claim("notify", "1")
    ledger.keep_log(claim, [out("sent\n")], ended=True)
    ledger.interrupt(claim, "stopped")
    assert short(list(ledger.logs("notify", "1"))) == [(1, "stdout", "sent\n", True)]


@ALL
def test_logs_of_the_last_attempts_are_kept(ledger: Ledger) -> None:
    for number in range(MOST_LOGGED + 2):
        claim = ledger.claim("clean", "1")
        ledger.keep_log(claim, [out(f"{number}\n"), err("x\n")], ended=True)
        ledger.interrupt(claim, "stopped") if number % 2 else ledger.fail(claim, "no")
        ledger.resubmit("clean", "1", reason="again")
    texts = [each.text for each in ledger.logs("clean", "1", stream="stdout", limit=1000)]
    assert texts == [f"{number}\n" for number in reversed(range(2, MOST_LOGGED + 2))]


@ALL
def test_text_is_made_safe_bounded_and_free_of_secrets(gate: Gate, ledger: Ledger) -> None:
    claim = ledger.claim("clean", "1")
    text = "\x1b[31mred\x1b[0m\x00 postgresql://ann:hunter2hunter2@db/x caf\u00e9 \u202e\n"
    ledger.keep_log(claim, [out(text)])
    (log,) = ledger.logs("clean", "1")
    assert log.text == "red\\x00 postgresql://ann:***@db/x caf\u00e9 \\u202e\n"
    ledger.keep_log(claim, [out("line\n" * 40_000)])
    (log,) = ledger.logs("clean", "1")
    assert (len(log.text), log.size, log.cut) == (65_535, 200_000, True)
    with pytest.raises(BadValue):
        ledger.keep_log(claim, [out("x" * (LONGEST_TEXT + 1))])


@ALL
@pytest.mark.parametrize("wrong", [{"stream": "stdin"}, {"attempt": 0}, {"limit": 0}])
def test_meaningless_requests_are_refused(ledger: Ledger, wrong: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        ledger.logs("clean", "1", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownName):
        ledger.logs("no-such-job", "1")


@ALL
def test_no_log_is_kept_if_the_setting_is_zero(gates: Gates, ledger: Ledger) -> None:
    claim = ledger.claim("clean", "1")
    behind(gates.open(log_keep="0")).ledger.log_keep = 0
    gates.open(log_keep="0").ledger.keep_log(claim, [out("one\n")])
    assert list(ledger.logs("clean", "1")) == []


@pytest.mark.parametrize("kind", SQL_STORES)
def test_the_daemon_removes_old_logs_and_an_alarm_says_if_none_runs(
    gate: Gate, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_keeper, "LOG_PORTION", 1)
    for dataid in ("1", "2"):
        ledger.keep_log(ledger.claim("clean", dataid), [out("a\n"), err("b\n")], ended=True)

    def remove_old() -> int:
        return sum(rounds.act() for rounds in daemon_rounds(gate, ["history"], 1.0))

    assert (remove_old(), gate.alarms()) == (0, [])
    database(gate).write(lambda tx: tx.run(OLDER, far=33 * DAY, dataid="1"))
    (alarm,) = gate.alarms()
    assert (alarm.kind, alarm.command) == ("overdue-logs", "headgate daemon history")
    assert alarm.what == "logs should have been removed 3 d ago (`log_keep_for`), and no history daemon is running"
    assert remove_old() == 2
    assert gate.alarms() == []
    assert [len(ledger.logs("clean", dataid)) for dataid in ("1", "2")] == [0, 2]


@ALL
def test_the_traceback_of_a_python_worker_is_the_log_of_its_attempt(ledger: Ledger) -> None:
    def divide(number: int) -> float:
        return number / 0

    def work() -> None:
        with ledger.work("clean") as chunks:
            for _chunk in chunks:
                divide(7)

    with pytest.raises(ZeroDivisionError):
        work()
    (log,) = ledger.logs("clean", "1")
    assert (log.stream, log.ended) == (LogStream.STDERR, True)
    assert log.text.startswith("Traceback (most recent call last):\n")
    assert "return number / 0" in log.text
    assert log.text.endswith("ZeroDivisionError: division by zero\n")


@ALL
def test_old_logs_are_removed_in_steps(gate: Gate, ledger: Ledger) -> None:
    for dataid in ("1", "2"):
        ledger.keep_log(ledger.claim("clean", dataid), [out("a\n"), err("b\n")], ended=True)
    database(gate).write(lambda tx: tx.run(OLDER, far=40 * DAY, dataid="1"))
    logs = behind(gate).store.logs
    until = wall() - timedelta(days=30)
    assert logs is not None
    oldest = logs.oldest()
    assert oldest is not None
    assert oldest < until
    assert sum(logs.forget(until, 1) for _ in range(3)) == 2
    assert list(ledger.logs("clean", "1")) == []
    assert len(ledger.logs("clean", "2")) == 2
