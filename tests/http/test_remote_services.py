"""Services behind a URL have the same signatures as on a store, and the service checks and records each call once."""

import inspect
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import headgate
from headgate import Claim, Gate
from headgate.client.connection import ServiceConnection
from headgate.client.history import RemoteHistory
from headgate.client.inventory import RemoteInventory
from headgate.client.ledger import RemoteCustody, RemoteLedger
from headgate.client.locks import RemoteLocks
from headgate.client.queue import RemoteQueue
from headgate.client.tokens import ServiceTokens
from headgate.core.values import names
from headgate.core.values.redaction import remember
from headgate.http.port.server import Server
from headgate.service import checks
from headgate.service.access.tokens import Tokens
from headgate.service.history import History
from headgate.service.inventory import Inventory
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue
from headgate.service.secrets.custody import CustodyRecords

#: Each service on a store, and its counterpart behind a URL.
PAIRS = [
    (Locks, RemoteLocks), (Ledger, RemoteLedger), (CustodyRecords, RemoteCustody), (Queue, RemoteQueue),
    (Inventory, RemoteInventory), (History, RemoteHistory), (Tokens, ServiceTokens),
]  # fmt: skip
#: Modules in which values of callers are checked.
CHECKING = {names.__file__, checks.__file__}
R = "file:/d/1"
#: Operations on a lock, each with the event that it records once.
ACTS: dict[str, tuple[Callable[[Gate, Any], object], str]] = {
    "renew": (lambda gate, lock: gate.locks.renew(lock, lease=60), ""),
    "check": (lambda gate, lock: gate.locks.check(lock), ""),
    "downgrade": (lambda gate, lock: gate.locks.downgrade(lock), "lock.changed"),
    "hand over": (lambda gate, lock: gate.locks.hand_over(lock.id, to="ann", reason="why"), "lock.handed_over"),
    "break": (lambda gate, lock: gate.locks.break_lock(lock.id, reason="why"), "lock.broken"),
    "list": (lambda gate, _: gate.locks.list(R, "a", "write", limit=5), ""),
    "waiters": (lambda gate, _: gate.locks.waiters(R), ""),
    "register": (lambda gate, _: gate.locks.register_client("a"), ""),
    "release": (lambda gate, lock: gate.locks.release(lock), "lock.released"),
}
#: Operations on a chunk, each with the event that it records once.
CHUNK_ACTS: dict[str, tuple[Callable[[Ledger, Claim], object], str]] = {
    "publish": (lambda ledger, claim: ledger.publish(f"raw of {claim.job}", ["2"]), "chunk.published"),
    "heartbeat": (lambda ledger, claim: ledger.heartbeat(claim), ""),
    "success": (lambda ledger, claim: ledger.success(claim), "chunk.success"),
    "fail": (lambda ledger, claim: ledger.fail(claim.job, "why", claim.dataid, claim.token), "chunk.failed"),
    "interrupt": (lambda ledger, claim: ledger.interrupt(claim), "chunk.interrupted"),
    "status": (lambda ledger, claim: ledger.status(None, claim.job, "1", kind="output", limit=5), ""),
    "explain": (lambda ledger, claim: ledger.explain(claim.job, "1"), ""),
    "pause": (lambda ledger, claim: ledger.pause(claim.job, reason="why"), ""),
    "resubmit": (lambda ledger, claim: ledger.resubmit(claim.job, "1", reason="why", steal=True), "chunk.resubmitted"),
}


@pytest.fixture
def remote(gate: Gate, server: Server) -> Iterator[Gate]:
    """A gate on the service."""
    with headgate.connect(server.url, token=gate.tokens.new("a test", ["admin"]).token) as found:
        yield found


@contextmanager
def checks_of_caller() -> Iterator[Counter[str]]:
    """Counts the checks of values in this thread."""
    seen: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code.co_filename in CHECKING and frame.f_code.co_name.startswith("check_"):
            seen[frame.f_code.co_name] += 1

    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(("local", "remote_kind"), PAIRS)
def test_services_have_the_same_signatures_behind_a_url(local: type, remote_kind: type) -> None:
    public = [name for name, _ in inspect.getmembers(local, inspect.isfunction) if name[0] != "_" or name == "__call__"]
    assert public
    for name in public:
        assert inspect.signature(getattr(remote_kind, name)) == inspect.signature(getattr(local, name)), name
    assert {name for name in vars(remote_kind) if name[0] != "_"} <= {*dir(local)}, "it has no method of its own"


@pytest.mark.parametrize("act", ACTS)
def test_a_call_is_checked_and_recorded_once_at_the_service(
    remote: Gate, gate: Gate, caplog: pytest.LogCaptureFixture, act: str
) -> None:
    do, recorded = ACTS[act]
    with caplog.at_level(logging.INFO, "headgate"), checks_of_caller() as seen:
        lock = remote.locks.acquire("a", R, "write", lease=60, note="why")
        # The caller keeps its own waiting time, and asks the service for a few seconds at a time.
        assert seen == {"check_seconds": 1}
        seen.clear()
        do(remote, lock)
        assert not seen
    said = Counter(record.message for record in caplog.records)
    assert (said["lock.granted"], said[recorded or "lock.granted"]) == (1, 1)
    for each in gate.locks.list(R):
        gate.locks.break_lock(each.id, reason="the case is over")


@pytest.mark.parametrize("act", CHUNK_ACTS)
def test_a_call_about_chunks_is_checked_and_recorded_once_at_the_service(
    remote: Gate, gate: Gate, caplog: pytest.LogCaptureFixture, act: str
) -> None:
    raw, tidy = f"raw of {act}", f"tidy of {act}"
    gate.ledger.define({raw: {}, tidy: {}}, {act: {"inputs": [raw], "outputs": [tidy]}})
    gate.ledger.publish(raw, "1")
    do, recorded = CHUNK_ACTS[act]
    with caplog.at_level(logging.INFO, "headgate"), checks_of_caller() as seen:
        claim = remote.ledger.find_next(act)
        assert claim is not None
        # The caller keeps the claim alive, and its own waiting time.
        assert {*seen} == {"check_positive_lease", "check_lease", "check_span", "check_seconds"}
        seen.clear()
        do(remote.ledger, claim)
        assert not seen
    said = Counter(record.message for record in caplog.records)
    assert (said["chunk.claimed"], said[recorded or "chunk.claimed"]) == (1, 1)


def test_a_call_to_the_queue_is_checked_and_recorded_once_at_the_service(
    remote: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    queue = remote.queue
    with caplog.at_level(logging.INFO, "headgate"), checks_of_caller() as seen:
        queue.submit("p", "ann", "https://example.org/a", erc_who="Ann")
        assert not seen
        item = queue.acquire_batch("pending", wait=1)
        assert item
        assert set(seen) <= {"check_span", "check_seconds"}, "the caller keeps the time that it waits"
        seen.clear()
        queue.renew(item)
        queue.create_jobs(item, [{"payload_url": "https://example.org/1"}])
        queue.fire(item, "start")
        (job,) = queue.jobs("pending", batch=item.id)
        queue.set_priority(job.id, 3, reason="why")
        queue.set_hold(reason="why")
        queue.clear_hold()
        assert not seen
    said = Counter(record.message for record in caplog.records)
    assert (said["batch.submit"], said["queue.start"], said["queue.hold"]) == (1, 1, 1)


def test_a_consumer_waits_at_the_service(gate: Gate, remote: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], ServiceConnection._ask

    def spy(self: ServiceConnection, *given: Any, **more: Any) -> Any:
        asked.append(more["wait"])
        return real(self, *given, **more)

    monkeypatch.setattr(ServiceConnection, "_ask", spy)
    assert remote.queue.acquire_job("recording", wait=1.5) is None
    assert asked[0] == pytest.approx(1.5, abs=0.5)
    assert len(asked) <= 2, "one request that waits, and perhaps one for the last moment"


def test_a_secret_that_this_process_knows_is_not_sent_in_a_note(remote: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(["tiger-tiger-42"])
    asked, real = [], ServiceConnection._ask

    def spy(self: ServiceConnection, method: str, path: Any, sent: Callable[[], Any] = dict, **more: Any) -> Any:
        asked.append(str(sent()))
        return real(self, method, path, sent, **more)

    monkeypatch.setattr(ServiceConnection, "_ask", spy)
    lock = remote.locks.acquire("a", R, "write", note="it is tiger-tiger-42")
    remote.locks.break_lock(lock.id, reason="tiger-tiger-42 is known")
    assert len(asked) == 2
    assert "tiger-tiger" not in str(asked)


def test_a_list_has_the_same_length_behind_a_url(remote: Gate, gate: Gate) -> None:
    gate.ledger.define({"made": {}}, {"make": {"outputs": ["made"]}})
    for number in range(101):
        gate.ledger.fail(gate.ledger.claim("make", f"{number:03}"), "why")
    assert len(gate.ledger.failures()) == len(remote.ledger.failures()) == 100
    assert len(remote.ledger.failures(101)) == 101


def test_the_counter_of_checks_works(gate: Gate) -> None:
    with checks_of_caller() as seen:
        gate.locks.release(gate.locks.acquire("a", R, "write"))
    assert {"check_name", "check_resource", "check_token"} <= {*seen}
