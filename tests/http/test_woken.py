"""A waiter is woken by the store itself, whichever process made the change: no waiter depends on polling here."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest

import headgate
from headgate import Gate
from headgate.client import asking
from headgate.core.errors import BadValue, UnknownName
from headgate.core.ledger.model import Claim
from headgate.core.ledger.progress import LOOKED_AT, NAMED
from headgate.core.locks.model import Lock
from headgate.core.queue.model import Batch, Item
from headgate.core.values.wire import parse
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.stores.sql.news import listener
from headgate.stores.sql.queue import sleepers as queue_sleepers
from headgate.stores.zookeeper.queue import lists as queue_lists
from tests.contract.queue_steps import STEPS, advance, batch_with_jobs, next_step, taken_batch
from tests.shared_servers import Servers
from tests.waiting import until

PATIENCE, NEVER = 60.0, 1000.0
R = "data:raw/1"
STORES = ["sqlite", "postgresql", "mariadb", "zookeeper"]


@pytest.fixture
def gates(
    request: pytest.FixtureRequest, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Gate, Gate]]:
    """Two gates that share a store, but no connection; polling starts only after the test."""
    for module, name in (
        (listener, "LISTENING_PAUSE"), (listener, "SHORTEST"), (queue_sleepers, "SHORTEST"),
        (queue_lists.ListListening, "pause"), (queue_lists, "LOOK_SECONDS"), (asking, "ASK_SECONDS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, NEVER)
    kind = str(request.param)
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    there = url if kind == "sqlite" else servers.fresh(kind)
    settings = {"coordination_url": there} if kind == "zookeeper" else {"url": there}
    with headgate.connect(**{"url": url, **settings}) as one, headgate.connect(**{"url": url, **settings}) as other:
        yield one, other
    if kind != "sqlite":
        servers.drop(kind, there)


@pytest.fixture
def server(gates: tuple[Gate, Gate]) -> Iterator[Server]:
    server = Server(Service(gates[0]), "127.0.0.1:0")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def remote(server: Server) -> Iterator[Gate]:
    """A gate on the service."""
    token = server.service.gate.tokens.new("a test", ["read"]).token
    with headgate.connect(server.url, token=token) as found:
        yield found


class Caller:
    """A waiting caller, in a thread."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        self._answers: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(wait()), daemon=True)
        self._thread.start()

    def answer(self) -> Any:
        self._thread.join(PATIENCE / 2)
        assert self._answers, "nobody woke it"
        return self._answers[0]


def ask(server: Server, path: str, waiting: int = 1, **asked: object) -> Caller:
    token = server.service.gate.tokens.new("a test", ["lock:acquire", "chunk:claim", "queue:work"]).token
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{server.url}/v1{path}"
    body = {**asked, "wait": PATIENCE}
    caller = Caller(lambda: httpx2.post(url, json=body, headers=headers, timeout=2 * PATIENCE))
    until(lambda: server.service.turns.waiting == waiting, "the caller to wait")
    return caller


def listens(gate: Gate) -> Callable[[], bool]:
    """Whether a caller waits for news in a process."""
    store: Any = gate.store.ledger
    return lambda: bool(store._news._listening) and store._news.told


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_waiting_caller_is_woken_by_a_release_elsewhere(gates: tuple[Gate, Gate], server: Server) -> None:
    _, other = gates
    held = other.locks.acquire("holder", R, "exclusive")
    caller = ask(server, "/locks", client="waiter", resource=R)
    until(lambda: other.locks.waiters(R), "its queue position")
    other.locks.release(held)
    assert caller.answer().status_code == 201


@pytest.mark.parametrize("gates", ["postgresql"], indirect=True)
def test_notifications_of_other_programs_do_not_end_listening(gates: tuple[Gate, Gate], server: Server) -> None:
    """Any user of a database of PostgreSQL may notify on any channel."""
    mine, other = gates
    store: Any = mine.store.locks
    held = other.locks.acquire("holder", R, "exclusive")
    caller = ask(server, "/locks", client="waiter", resource=R)
    until(lambda: other.locks.waiters(R), "its queue position")
    with psycopg.connect(mine.settings["url"], autocommit=True) as stranger:
        for channel in (store._wakeups.channel, store.news.channel):
            stranger.execute("select pg_notify(%s, w) from unnest('{\"\", a word, -1, 1.5, ²}'::text[]) w", (channel,))
    other.locks.release(held)
    assert caller.answer().status_code == 201
    assert store._wakeups.listening


def release(gate: Gate, held: Lock) -> None:
    gate.locks.release(held)


def downgrade(gate: Gate, held: Lock) -> None:
    gate.locks.downgrade(held)


def break_it(gate: Gate, held: Lock) -> None:
    gate.locks.break_lock(held.id, reason="a test")


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_waiting_caller_is_woken_by_the_service_that_it_asked(gates: tuple[Gate, Gate], server: Server) -> None:
    for act in (release, downgrade, break_it):
        held = gates[0].locks.acquire("holder", act.__name__, "exclusive")
        caller = ask(server, "/locks", client="waiter", resource=act.__name__, mode="shared")
        until(partial(gates[1].locks.waiters, act.__name__), "its queue position")
        act(gates[0], held)
        assert caller.answer().status_code == 201, act.__name__


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_caller_is_woken_when_the_waiter_before_it_disconnects(gates: tuple[Gate, Gate], server: Server) -> None:
    gates[1].locks.acquire("holder", R, "shared")
    token = server.service.gate.tokens.new("a test", ["lock:acquire"]).token
    there = urlsplit(server.url)
    body = {"client": "writer", "resource": R, "mode": "exclusive", "wait": PATIENCE}
    with socket.create_connection((there.hostname, there.port)) as writer:
        text = json.dumps(body)
        head = f"POST /v1/locks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        writer.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        until(lambda: gates[1].locks.waiters(R), "the writer's place")
        reader = ask(server, "/locks", 2, client="reader", resource=R, mode="shared")
        until(lambda: len(gates[1].locks.waiters(R)) == 2, "the reader's place")
    assert reader.answer().status_code == 201


def fail(gate: Gate, claim: Claim) -> None:
    gate.ledger.fail(claim, "it broke")


def end(gate: Gate, claim: Claim) -> None:
    gate.ledger.success(claim)


def steal(gate: Gate, claim: Claim) -> None:
    gate.ledger.forget(claim.job, claim.dataid, reason="a test", steal=True)


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_waits_for_a_lock_on_a_chunk_is_woken_by_the_end_of_its_claim(
    gates: tuple[Gate, Gate], server: Server
) -> None:
    gates[1].ledger.define({"fetched": {}}, {"fetch": {"outputs": ["fetched"]}})
    for dataid, act in enumerate((end, fail, steal)):
        for gate in gates:
            claim = gates[1].ledger.claim("fetch", f"{dataid}-{gates.index(gate)}")
            resource = f"data:fetched/{claim.dataid}"
            caller = ask(server, "/locks", client="waiter", resource=resource, mode="shared")
            until(partial(gates[1].locks.waiters, resource), "its queue position")
            until(listens(gates[0]), "the service to listen")
            act(gate, claim)
            assert caller.answer().status_code == 201, act.__name__


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_waits_for_a_lock_is_woken_by_the_end_of_a_claim_that_reads_the_chunk_by_a_mapping(
    gates: tuple[Gate, Gate],
) -> None:
    mine, other = gates
    month = {"kind": "period", "period": "month", "unit": "day"}
    other.ledger.define(
        {"days": {}, "months": {}}, {"merge": {"inputs": ["days"], "outputs": ["months"], "maps": {"days": month}}}
    )
    other.ledger.publish("days", [f"2026-02-{day:02}" for day in range(1, 29)])
    claim = other.ledger.claim("merge", "2026-02")
    resource = "data:days/2026-02-07"
    waiter = Caller(lambda: mine.locks.acquire("writer", resource, "exclusive", wait=PATIENCE))
    until(lambda: other.locks.waiters(resource), "its queue position")
    until(listens(mine), "it to listen")
    other.ledger.fail(claim, "it broke")
    assert waiter.answer().resource == resource


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_waits_for_a_chunk_is_woken_by_the_end_of_a_lock_on_it(gates: tuple[Gate, Gate]) -> None:
    """On a chunk that its job reads, and on one that it makes."""
    mine, other = gates
    other.ledger.define({"raw": {}, "cleaned": {}}, {"clean": {"inputs": ["raw"], "outputs": ["cleaned"]}})
    for number, (dataset, act) in enumerate(
        [("raw", release), ("cleaned", release), ("raw", downgrade), ("raw", break_it), ("cleaned", release_one_hold)]
    ):
        other.ledger.publish("raw", str(number))
        held = other.locks.acquire("holder", f"data:{dataset}/{number}", "exclusive", reentrant=True)
        if act is release_one_hold:
            other.locks.acquire("holder", held.resource, "exclusive", reentrant=True)
        waiter = Caller(lambda: mine.ledger.find_next("clean", wait=PATIENCE))
        until(listens(mine), "it to listen")
        act(other, held)
        assert waiter.answer().dataid == str(number), (dataset, act.__name__)


def release_one_hold(gate: Gate, held: Lock) -> None:
    """Twice: the last one frees the chunk."""
    gate.locks.release(held)
    gate.locks.release(held)


def publish(gate: Gate) -> None:
    gate.ledger.publish("raw", "2")


def succeed(gate: Gate) -> None:
    gate.ledger.success(gate.ledger.claim("fetch", "1"))


def resubmit(gate: Gate) -> None:
    gate.ledger.resubmit("clean", "0", reason="wrong")


def unhold(gate: Gate) -> None:
    gate.ledger.unhold("clean", "9")


def interrupt(gate: Gate) -> None:
    (row,) = gate.ledger.status("cleaned", "clean", "7")
    gate.ledger.interrupt("clean", "stopped", "7", row.token)


ACTS = {publish: "2", succeed: "1", resubmit: "0", unhold: "9", interrupt: "7"}


def prepare(gate: Gate) -> None:
    """One chunk is done, one runs, one is held, the others lack an input: there is nothing to claim."""
    gate.ledger.define(
        {"raw": {}, "fetched": {}, "cleaned": {}},
        {"fetch": {"outputs": ["fetched"]}, "clean": {"inputs": ["raw", "fetched"], "outputs": ["cleaned"]}},
    )
    gate.ledger.publish("raw", ["0", "1", "7", "9"])
    for dataid in ("0", "2", "7", "9"):
        gate.ledger.success(gate.ledger.claim("fetch", dataid))
    gate.ledger.success(gate.ledger.claim("clean", "0"))
    gate.ledger.claim("clean", "7")
    gate.ledger.hold("clean", "9", reason="wait")
    assert gate.ledger.find_next("clean") is None


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_waits_for_a_chunk_is_woken_by_whatever_makes_it_claimable(gates: tuple[Gate, Gate]) -> None:
    mine, other = gates
    prepare(other)
    for act, dataid in ACTS.items():
        waiter = Caller(lambda: mine.ledger.find_next("clean", wait=PATIENCE))
        until(listens(mine), "it to listen")
        act(other)
        assert waiter.answer().dataid == dataid, act.__name__


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_waiting_caller_is_woken_by_a_chunk_published_elsewhere(gates: tuple[Gate, Gate], server: Server) -> None:
    _, other = gates
    prepare(other)
    caller = ask(server, "/jobs/clean/next")
    until(listens(gates[0]), "the service to listen")
    other.ledger.publish("raw", "2")
    assert caller.answer().json()["dataid"] == "2"


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_waits_for_the_end_of_a_job_is_woken_by_a_report(gates: tuple[Gate, Gate]) -> None:
    mine, other = gates
    other.ledger.define({"raw": {}}, {"fetch": {"outputs": ["raw"]}})
    claim = other.ledger.claim("fetch", "1")
    waiter = Caller(lambda: mine.ledger.wait("fetch", ["1"], timeout=PATIENCE))
    until(listens(mine), "it to listen")
    other.ledger.success(claim)
    assert waiter.answer().ended


def waits(gate: Gate, server: Server, wait: Callable[[], Any]) -> Caller:
    """A caller of a service, once it waits there and the service listens."""
    caller = Caller(wait)
    until(lambda: server.service.turns.waiting == 1, "the caller to wait")
    if not is_zookeeper(gate):
        until(listens(gate), "the service to listen")
    return caller


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_waits_for_chunks_at_a_service_is_woken_by_whatever_finishes_them(
    gates: tuple[Gate, Gate], server: Server, remote: Gate
) -> None:
    mine, other = gates
    other.ledger.define({"raw": {}}, {"fetch": {"outputs": ["raw"], "max_attempts": 1}})
    for dataid, act in enumerate((end, fail)):
        claim = other.ledger.claim("fetch", str(dataid))
        caller = waits(mine, server, partial(remote.ledger.wait, "fetch", [claim.dataid], timeout=PATIENCE))
        act(other, claim)
        found = caller.answer()
        assert (found.ended, found.failed) == (True, int(act is fail)), act.__name__
    claim = other.ledger.claim("fetch", "last")
    caller = waits(mine, server, partial(remote.ledger.wait, "fetch"))
    other.ledger.success(claim)
    assert caller.answer().failed == 1, "of the whole job"


@pytest.mark.parametrize("gates", STORES[:3], indirect=True)
def test_a_caller_that_follows_chunks_at_a_service_learns_of_each_change(
    gates: tuple[Gate, Gate], server: Server, remote: Gate
) -> None:
    mine, other = gates
    other.ledger.define({"raw": {}}, {"fetch": {"outputs": ["raw"]}})
    claims = [other.ledger.claim("fetch", str(number)) for number in range(2)]
    following = remote.ledger.following("fetch", [claim.dataid for claim in claims])
    assert following.change(None).left == 2, "at first at once"
    for left, claim in zip((1, 0), claims, strict=True):
        caller = waits(mine, server, partial(following.change, PATIENCE))
        other.ledger.success(claim)
        assert (caller.answer().left, following.ended(following.now())) == (left, not left)


def submit(gate: Gate) -> str:
    return gate.queue.submit("p", "somebody", "https://example.org/a.checkm").id


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_waiting_caller_is_woken_by_a_batch_submitted_elsewhere(gates: tuple[Gate, Gate], server: Server) -> None:
    _, other = gates
    caller = ask(server, "/batches/next?state=pending")
    if not is_zookeeper(gates[0]):
        until(listens(gates[0]), "the service to listen")
    batch = submit(other)
    assert caller.answer().json()["id"] == batch


def give_back(gate: Gate, taken: Batch) -> None:
    gate.queue.give_back(taken)


def clear_hold(gate: Gate, taken: Batch) -> None:
    gate.queue.set_hold("*", reason="a test")
    gate.queue.give_back(taken)
    gate.queue.clear_hold("*")


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_waiting_caller_is_woken_by_whatever_makes_a_batch_takeable(gates: tuple[Gate, Gate], server: Server) -> None:
    submit(gates[1])
    for act in (give_back, clear_hold):
        for gate in gates:
            taken = gate.queue.acquire_batch("pending")
            assert taken
            caller = ask(server, "/batches/next?state=pending")
            if not is_zookeeper(gates[0]):
                until(listens(gates[0]), "the service to listen")
            act(gate, taken)
            again = caller.answer().json()
            assert again["id"] == taken.id, act.__name__
            gate.queue.give_back(parse(Batch, again))


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_consumer_is_woken_by_an_item_from_elsewhere(gates: tuple[Gate, Gate]) -> None:
    mine, other = gates
    asleep = threading.Event()

    def wait() -> Any:
        while (found := mine.queue.acquire_batch("pending")) is None:
            asleep.set()
            mine.queue.await_work(["pending"], [], NEVER)
        return found.id

    waiter = Caller(wait)
    assert asleep.wait(PATIENCE)
    if not is_zookeeper(mine):
        until(listens(mine), "it to listen")
    assert submit(other) == waiter.answer()
    waiting_for_it = Caller(lambda: mine.queue.acquire_batch("pending", wait=PATIENCE))
    assert submit(other) == waiting_for_it.answer().id


def complete(gate: Gate) -> Item:
    """A job goes through all its states, and its batch with it."""
    queue = gate.queue
    job = advance(queue, queue.jobs(limit=1)[0], "completed")
    queue.report_finished()
    queue.fire(taken_batch(queue, "reporting"), "finish")
    return queue.batch(job.batch)


def hold(gate: Gate) -> Item:
    return gate.queue.fire(taken_batch(gate.queue), "hold", "a test")


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_caller_that_waits_for_a_batch_at_a_service_is_woken_by_its_end(
    gates: tuple[Gate, Gate], server: Server, remote: Gate
) -> None:
    mine, other = gates
    held = submit(other)
    caller = waits(mine, server, partial(remote.queue.wait, held, timeout=PATIENCE))
    hold(other)
    assert caller.answer().state == "held"
    batch = batch_with_jobs(other.queue)
    (job,) = other.queue.jobs(batch=batch.id)
    caller = waits(mine, server, partial(remote.queue.wait, batch.id))
    assert complete(other).id == batch.id
    assert caller.answer().state == "completed"
    assert remote.queue.wait(job.id).state == "completed", "it has ended: nobody waits"


@pytest.mark.parametrize("gates", STORES, indirect=True)
def test_a_caller_that_follows_an_ingest_job_at_a_service_learns_of_each_state(
    gates: tuple[Gate, Gate], server: Server, remote: Gate
) -> None:
    mine, other = gates
    (job,) = other.queue.jobs(batch=batch_with_jobs(other.queue).id)
    following = remote.queue.following(job.id)
    seen = [following.change(None).state]
    while not following.ended(following.now()):
        caller = waits(mine, server, partial(following.change, PATIENCE))
        advance(other.queue, job, next_step(job.state))
        job = caller.answer()
        seen.append(job.state)
    assert seen == [*STEPS, "completed"]


def noted(sent: list[object], send: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Send it, and note it."""
    sent.append(given)
    return send(*given, **named)


@pytest.mark.parametrize("gates", STORES[:1], indirect=True)
def test_waiting_for_many_chunks_at_a_service_asks_for_many_at_once(
    gates: tuple[Gate, Gate], server: Server, remote: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = gates
    other.ledger.define({"raw": {}}, {"fetch": {"outputs": ["raw"], "max_attempts": 1}})
    dataids = [str(number) for number in range(LOOKED_AT + 30)]
    claims = [other.ledger.claim("fetch", dataid) for dataid in dataids]
    following = remote.ledger.following("fetch", dataids)
    assert (following.now().left, len(following.now().waiting)) == (len(dataids), NAMED)
    sent: list[object] = []
    connection: Any = remote.root
    monkeypatch.setattr(connection.connection, "send", partial(noted, sent, connection.connection.send))
    for claim in claims[:-1]:
        other.ledger.fail(claim, "it broke")
    caller = waits(mine, server, partial(following.to_its_end, PATIENCE))
    other.ledger.fail(claims[-1], "it broke")
    found = caller.answer()
    assert (found.ended, found.failed, len(found.failures)) == (True, len(dataids), NAMED)
    assert len(sent) == 2


@pytest.mark.parametrize("gates", STORES[:1], indirect=True)
def test_waiting_for_something_unknown_is_refused(gates: tuple[Gate, Gate], remote: Gate) -> None:
    with pytest.raises(UnknownName, match="batch"):
        remote.queue.wait("bid0000000099")
    with pytest.raises(UnknownName, match="batch"):
        remote.queue.batch("jid0000000099")
    with pytest.raises(UnknownName, match="job"):
        remote.ledger.wait("fetch")
    with pytest.raises(BadValue, match="timeout"):
        remote.ledger.wait("fetch", timeout=-1)


def is_zookeeper(gate: Gate) -> bool:
    return bool(gate.settings["coordination_url"])
