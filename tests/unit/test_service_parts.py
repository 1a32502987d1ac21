"""Parts of the service that need no store: the owner of a process, log events, and keeping a lease alive."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headgate.core.errors import BadValue, HeadgateError, LockLost, StoreUnavailable
from headgate.core.locks.model import Lock, Mode
from headgate.service.access.identity import describe_process, new_request_id, owner
from headgate.service.checks import check_lease, check_seconds
from headgate.service.leases.renewal import LockHold
from headgate.service.locks.wants import check_wants
from headgate.service.queue.checks import check_identifiers, check_metadata
from headgate.telemetry import JsonLines, event, logger

PATIENCE = 20.0


def test_a_process_is_named_by_host_id_and_mark() -> None:
    assert f"pid {os.getpid()} #" in owner()
    assert owner() == owner()


def test_a_batch_job_is_named_with_its_restart() -> None:
    told = describe_process(7, "abc", {"SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "big", "SLURM_RESTART_COUNT": "2"})
    assert told.endswith("pid 7 #abc big:4711.2")
    assert describe_process(7, "abc", {"SLURM_JOB_ID": "4711"}).endswith("slurm:4711.0")
    assert len(describe_process(7, "abc", {"SLURM_JOB_ID": "9" * 400})) == 255


def test_request_ids_do_not_repeat() -> None:
    assert len({new_request_id() for _ in range(1000)}) == 1000


# ------------------------------------------------------------------ log


def test_an_event_is_one_line_of_json_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="headgate"):
        event("lock.granted", resource="caf\u00e9", token=7, job_key="s3cret", Password="s3cret", at_all=None)
    (record,) = caplog.records
    line = JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["event"], told["level"], told["resource"], told["token"]) == ("lock.granted", "info", "caf\u00e9", 7)
    assert (told["job_key"], told["Password"]) == ("(hidden)", "(hidden)")
    assert datetime.fromisoformat(told["at"]).tzinfo


def test_nothing_is_prepared_for_a_log_that_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "log", lambda *_, **__: pytest.fail("logged"))
    logger.setLevel(logging.ERROR)
    try:
        event("lock.granted", token=7)
    finally:
        logger.setLevel(logging.NOTSET)


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize("value", [0, 0.0, 1, 2.5, float("inf"), 10**400])
def test_seconds_are_numbers_of_at_least_zero(value: float) -> None:
    assert check_seconds("wait", value) >= 0


def test_a_lease_has_a_shortest_and_a_longest_length() -> None:
    assert check_lease(None) is None
    assert check_lease(5) == 5.0
    for wrong in (0, -1, float("nan"), float("inf"), 10**400, True, "5"):
        with pytest.raises(BadValue, match="lease"):
            check_lease(wrong)


def test_wants_are_sorted_by_resource() -> None:
    assert [want.resource for want in check_wants({"b": "read", "a": "write", "B": "read"}, 3)] == ["B", "a", "b"]


# ------------------------------------------------------------------ keeping a lease


class Service:
    """Answers renewals as the test requires."""

    def __init__(self, *answers: HeadgateError | None) -> None:
        self._answers = list(answers)
        self.renewals = 0
        self.tell_loss: Callable[[str], None] = lambda _: None
        self.watched = False

    def renew(self, lock: Lock | str, token: int | None = None) -> Lock:
        self.renewals += 1
        answer = self._answers.pop(0) if self._answers else None
        if answer:
            raise answer
        assert isinstance(lock, Lock)
        assert token is None
        return lock

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        assert lock.token == 7
        self.tell_loss, self.watched = lost, True

        def end() -> None:
            self.watched = False

        return end


def lock_of(lease: float | None) -> Lock:
    now = datetime(2026, 11, 15, tzinfo=UTC)
    return Lock("id", "r", "a", Mode.EXCLUSIVE, 7, now, lease, lease)


class Loss:
    """Records each notification, and its time."""

    def __init__(self) -> None:
        self.errors: list[LockLost] = []
        self.happened = threading.Event()

    def __call__(self, error: LockLost) -> None:
        self.errors.append(error)
        self.happened.set()


def hold_of(service: Service, lease: float | None, loss: Loss, margin: float = 0.0) -> LockHold:
    hold = LockHold(service, lock_of(lease), time.monotonic(), loss, margin)
    hold.start()
    return hold


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_lease_is_renewed_several_times_within_its_length() -> None:
    service, loss = Service(), Loss()
    hold = hold_of(service, 0.8, loss)
    wait_for(lambda: service.renewals >= 6)
    hold.check()
    hold.stop()
    assert loss.errors == []
    assert not service.watched


def test_a_persistent_lock_is_watched_but_not_renewed() -> None:
    service, loss = Service(), Loss()
    hold = hold_of(service, None, loss)
    assert service.watched
    assert hold.deadline is None
    service.tell_loss("the session ended")
    assert [error.why for error in loss.errors] == ["the session ended"]
    with pytest.raises(LockLost, match="the session ended"):
        hold.check()
    hold.stop()
    assert service.renewals == 0


def test_a_brief_outage_of_the_store_does_not_end_a_hold() -> None:
    away = StoreUnavailable("store", "gone")
    service, loss = Service(away, away, away), Loss()
    hold = hold_of(service, 4.0, loss)
    wait_for(lambda: service.renewals >= 5)
    hold.check()
    hold.stop()
    assert loss.errors == []


def test_a_longer_outage_ends_a_hold_before_its_lease() -> None:
    service, loss = Service(*[StoreUnavailable("store", "gone")] * 10_000), Loss()
    hold = hold_of(service, 1.0, loss, margin=0.5)
    deadline = hold.deadline
    assert loss.happened.wait(PATIENCE)
    assert deadline is not None
    assert time.monotonic() < deadline
    assert loss.errors[0].why == "it could not be renewed in time"
    hold.stop()


def test_a_renewal_that_is_answered_after_the_loss_was_reported_revives_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, loss, answered = Service(), Loss(), threading.Event()

    def renew(lock: Lock | str, token: int | None = None) -> Lock:
        assert loss.happened.wait(PATIENCE)
        answered.set()
        return Service.renew(service, lock, token)

    monkeypatch.setattr(service, "renew", renew)
    hold = hold_of(service, 0.4, loss)
    deadline = hold.deadline
    assert answered.wait(PATIENCE)
    with hold.busy:  # The renewal is over.
        pass
    assert hold.deadline == deadline
    assert hold.gone is loss.errors[0]
    hold.stop()


def test_a_lost_lock_is_reported_once_and_no_longer_renewed() -> None:
    service, loss = Service(LockLost("id", 7, "it was broken")), Loss()
    hold = hold_of(service, 0.4, loss)
    assert loss.happened.wait(PATIENCE)
    assert loss.errors[0].why == "it was broken"
    service.tell_loss("once more")
    assert len(loss.errors) == 1
    hold.stop()
    count = service.renewals
    time.sleep(0.2)
    assert service.renewals == count


def test_an_error_after_the_end_is_not_reported_as_a_loss() -> None:
    service, loss = Service(), Loss()
    hold = hold_of(service, 60.0, loss)
    hold.stop()
    service.tell_loss("too late to matter")
    assert loss.errors == []
    assert hold.lost is None


def test_a_hold_has_the_attributes_of_its_lock() -> None:
    hold = LockHold(Service(), lock_of(5.0), 100.0, None, 0.0)
    assert (hold.id, hold.token, hold.client, hold.resource) == ("id", 7, "a", "r")
    assert (hold.mode, hold.since, hold.deadline) == (Mode.EXCLUSIVE, lock_of(5.0).since, 105.0)


def test_a_passed_deadline_is_noticed_without_a_thread() -> None:
    """As after the whole process was stopped: no thread could report it before."""
    hold = LockHold(Service(), lock_of(5.0), time.monotonic() - 6.0, None, 0.0)
    with pytest.raises(LockLost, match="could not be renewed in time"):
        hold.check()


@pytest.mark.parametrize("value", ["\ud800", 1.5, ["a", None], "x" * 500_001], ids=["half", "float", "none", "long"])
def test_invalid_metadata_of_a_submission_is_refused(value: object) -> None:
    with pytest.raises(BadValue):
        check_metadata({"note": value})


@pytest.mark.parametrize("value", [{"local": None}, {"local": 7}, {"local": [7]}, {"primary": None}, {"other": ""}, []])
def test_identifiers_of_another_form_are_refused(value: object) -> None:
    with pytest.raises(BadValue):
        check_identifiers(value)
