"""Who may change what another principal holds: only its owner, `local`, and an override with a reason.

Each test runs all operations of a noun, on every store and over HTTP: refused for other principals (and nothing
changes), allowed with an override, allowed for the owner.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

import headgate
from headgate import ClaimLost, Gate, ItemLost, Lock, LockRefused, NotOwner
from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Request
from headgate.service.ledger.use_cases import Ledger
from headgate.service.queue.use_cases import Queue
from headgate.stores.ports.locks import LockStore
from tests.contract import ledger_steps, queue_steps
from tests.contract.over_http import BEHIND, HTTP, LEDGER_STORES, port_of
from tests.contract.steps import EXCLUSIVE, LONG, SHARED, Gates, request_for

ANN, BOB, CHIEF = "ann", "bob", "chief"
REASON = "ann is away, é"


class People:
    """Principals of one store: callers of a service with an API token each, or actors on the store itself."""

    def __init__(self, kind: str, gates: Gates) -> None:
        self._over_http = kind == HTTP
        self.gates = {name: gates.open() for name in (ANN, BOB, CHIEF)} if kind != HTTP else {}
        if kind == HTTP:
            behind = BEHIND[gates.url]
            for name in (ANN, BOB, CHIEF):
                scopes = ["read", "lock:acquire", "chunk:claim", "queue:work"] + ["admin:force"] * (name == CHIEF)
                self.gates[name] = gates.open(token=behind.tokens.new(name, scopes).token)

    @contextmanager
    def acts(self, name: str, override: str = "") -> Iterator[Gate]:
        """Within the block, that principal sends the requests, through its own gate."""
        with acting(Actor("local" if self._over_http else name, override)):
            yield self.gates[name]

    def as_ann(self) -> AbstractContextManager[Gate]:
        return self.acts(ANN)

    def as_bob(self) -> AbstractContextManager[Gate]:
        return self.acts(BOB)

    def overriding(self) -> AbstractContextManager[Gate]:
        return self.acts(CHIEF, REASON)


@pytest.fixture
def people(kind: str, gates: Gates) -> People:
    return People(kind, gates)


def asked(
    *wants: tuple[str, headgate.Mode], reentrant: bool = False, principal: str = ANN, override: str = ""
) -> Request:
    """The requester: over HTTP the service knows it, and does not ask."""
    request = request_for("the client", *wants, lease=LONG, reentrant=reentrant)
    return replace(request, principal=principal, override=override)


#: Everything that a holder does with its lock, and what it leaves in the history.
LOCK_ACTS: dict[str, Callable[[LockStore, Lock], object]] = {
    "renew": lambda store, lock: store.renew(lock.id, lock.token),
    "check": lambda store, lock: store.check(lock.id, lock.token),
    "upgrade": lambda store, lock: store.upgrade(lock.id, lock.token),
    "downgrade": lambda store, lock: store.downgrade(lock.id, lock.token),
    "hand-over": lambda store, lock: store.hand_over(lock.id, ANN, ""),
    "release": lambda store, lock: store.release(lock.id, lock.token),
}


def test_only_the_owner_can_change_a_lock(people: People) -> None:
    for act, do in LOCK_ACTS.items():
        mode = SHARED if act == "upgrade" else EXCLUSIVE
        for who, override in ((CHIEF, REASON), (ANN, "")):
            with people.as_ann() as gate:
                (lock,) = port_of(gate).acquire(asked((f"file:/{act}/{who}", mode)))
            with people.as_bob() as gate:
                with pytest.raises(NotOwner) as refused:
                    do(port_of(gate), lock)
                with pytest.raises(NotOwner):  # The right token is not shown to other principals, either.
                    port_of(gate).release(lock.id, lock.token + 1)
            assert (refused.value.owner, refused.value.principal) == (ANN, BOB)
            with people.acts(who, override) as gate:
                before = port_of(gate).get(lock.id)
                assert (before.id, before.token, before.principal) == (lock.id, lock.token, ANN)
                do(port_of(gate), lock)
                told = gate.history(lock_id=lock.id, limit=1)[0]
            if act not in ("renew", "check"):
                assert (told.event, told.principal) == (act, who)
                assert REASON in told.reason or not override


def test_a_hold_is_joined_by_its_own_principal_alone(people: People) -> None:
    wants = ("file:/joined", EXCLUSIVE)
    with people.as_ann() as gate:
        (lock,) = port_of(gate).acquire(asked(wants, reentrant=True))
    with people.as_bob() as gate, pytest.raises(LockRefused, match="ann"):  # By the same client name.
        port_of(gate).acquire(asked(wants, reentrant=True, principal=BOB))
    with people.as_ann() as gate:
        (joined,) = port_of(gate).acquire(asked(wants, reentrant=True))
    assert (joined.id, joined.count, joined.principal) == (lock.id, 2, ANN)
    with people.overriding() as gate:
        (joined,) = port_of(gate).acquire(asked(wants, reentrant=True, principal=CHIEF, override=REASON))
    assert (joined.id, joined.count, joined.principal) == (lock.id, 3, ANN)


def test_a_lock_that_was_handed_over_is_the_new_owners(people: People) -> None:
    with people.as_ann() as gate:
        request = asked(("file:/given", SHARED))
        (lock,) = port_of(gate).acquire(request)
        handed = gate.locks.hand_over(lock.id, to=BOB, reason="the night shift goes on")
        assert (handed.id, handed.principal) == (lock.id, BOB)
        with pytest.raises(NotOwner, match="bob"):
            port_of(gate).release(lock.id, lock.token)
        with pytest.raises(headgate.BadValue, match="still held"):
            port_of(gate).acquire(request)
        told = gate.history(event="hand-over")[0]
        assert (told.principal, told.reason) == (ANN, "from ann to bob: the night shift goes on")
    with people.as_bob() as gate:
        (seen,) = port_of(gate).list(LockFilter(resource="file:/given"))
        assert (seen.token > lock.token, seen.principal) == (True, BOB)
        assert handed.token in (0, seen.token)  # A service shows it only to the new owner.
        port_of(gate).release(seen.id, seen.token)


def test_a_waiter_is_handed_its_own_lock(people: People) -> None:
    """No matter who frees the resource, the grant is the waiter's."""
    wants = ("file:/waited", EXCLUSIVE)
    with people.as_ann() as gate:
        (lock,) = port_of(gate).acquire(asked(wants))
    with people.as_bob() as gate:
        ticket = port_of(gate).queue_up(asked(wants, principal=BOB))
        assert not isinstance(ticket, tuple)
    with people.as_ann() as gate:
        port_of(gate).release(lock.id, lock.token)
    with people.as_bob() as gate:
        (taken,) = port_of(gate).take_turn(ticket) or ()
        assert taken.principal == BOB
        port_of(gate).release(taken.id, taken.token)
        told = [(each.event, each.principal) for each in gate.history(resource="file:/waited")]
    assert told == [("release", BOB), ("grant", BOB), ("release", ANN), ("grant", ANN)]


#: What a worker reports of its claim.
CLAIM_ACTS: dict[str, Callable[[Ledger, headgate.Claim], object]] = {
    "heartbeat": lambda ledger, claim: ledger.heartbeat(claim.job, claim.dataid, claim.token),
    "success": lambda ledger, claim: ledger.success(claim.job, claim.dataid, claim.token),
    "fail": lambda ledger, claim: ledger.fail(claim.job, "no", claim.dataid, claim.token),
    "interrupt": lambda ledger, claim: ledger.interrupt(claim.job, "SIGTERM", claim.dataid, claim.token),
}


@pytest.mark.parametrize("kind", LEDGER_STORES)
def test_only_the_owner_can_report_on_a_claim(people: People, gate: Gate) -> None:
    ledger_steps.one_job(gate)
    for act, do in CLAIM_ACTS.items():
        for who, override in ((CHIEF, REASON), (ANN, "")):
            dataid = f"{act} {who}"
            gate.ledger.publish("raw", dataid)
            with people.as_ann() as anns:
                claim = anns.ledger.claim("clean", dataid, lease=LONG)
            with people.as_bob() as bobs:
                with pytest.raises(NotOwner) as refused:
                    do(bobs.ledger, claim)
                (running,) = port_of(bobs).list(LockFilter(resource=f"data:tidy/{dataid}"))
            assert (refused.value.owner, running.principal) == (ANN, ANN)
            with people.acts(who, override) as theirs:
                do(theirs.ledger, claim)
            told = gate.history(job="clean", dataid=dataid)
            assert (told[-1].event, told[-1].principal) == ("claim", ANN)
            if act != "heartbeat":
                assert (told[0].event, told[0].principal) == (act, who)
                assert REASON in told[0].reason or not override
            else:
                with people.as_ann() as anns:
                    anns.ledger.success(claim.job, claim.dataid, claim.token)


@pytest.mark.parametrize("kind", LEDGER_STORES)
def test_a_claim_that_another_worker_has_meanwhile_is_lost(people: People, gate: Gate) -> None:
    """A worker whose lease expired hears that, and not that the chunk was never its own."""
    ledger_steps.one_job(gate)
    gate.ledger.publish("raw", "1")
    with people.as_ann() as anns:
        old = anns.ledger.find_next("clean", lease=LONG)
        assert old
        anns.ledger.fail(old.job, "no", old.dataid, old.token)
    with people.as_bob() as bobs:
        new = bobs.ledger.find_next("clean", lease=LONG)
        assert new
    with people.as_ann() as anns:
        for do in CLAIM_ACTS.values():
            with pytest.raises(ClaimLost):
                do(anns.ledger, old)
    with people.as_bob() as bobs:
        bobs.ledger.success(new.job, new.dataid, new.token)


#: What an owner does with an item that it has taken.
ITEM_ACTS: dict[str, Callable[[Queue, headgate.IngestJob], object]] = {
    "renew": lambda queue, job: queue.renew(job),
    "change": lambda queue, job: queue.change(job, space_needed=1),
    "give_back": lambda queue, job: queue.give_back(job, "not now"),
    "accept": lambda queue, job: queue.fire(job, "accept"),
}


def test_only_the_owner_can_change_an_item(people: People, gate: Gate) -> None:
    for act, do in ITEM_ACTS.items():
        for who, override in ((CHIEF, REASON), (ANN, "")):
            job = queue_steps.job_in(gate.queue, "pending")
            with people.as_ann() as anns:
                taken = anns.queue.acquire_job("pending", worker="w", lease=LONG, outlives=True)
                assert taken
                assert (taken.id, taken.principal) == (job.id, ANN)
            with people.as_bob() as bobs, pytest.raises(NotOwner) as refused:
                do(bobs.queue, taken)
            assert refused.value.owner == ANN
            with people.acts(who, override) as theirs:
                do(theirs.queue, taken)
            if act in ("renew", "change"):
                assert gate.queue.job(job.id).principal == ANN
                with people.as_ann() as anns:
                    anns.queue.fire(taken, "accept")
            if act == "accept":
                told = gate.history(item=job.id, event="accept")[0]
                assert (told.principal, told.client) == (who, "w")
                assert REASON in told.reason or not override
            if act == "give_back":
                again = gate.queue.acquire_job("pending", lease=LONG)
                assert again
                gate.queue.fire(again, "accept")


def test_an_item_that_another_consumer_has_meanwhile_is_lost(people: People, gate: Gate) -> None:
    """Like a claim."""
    queue_steps.job_in(gate.queue, "pending")
    with people.as_ann() as anns:
        old = anns.queue.acquire_job("pending", worker="w", lease=LONG, outlives=True)
        assert old
        anns.queue.give_back(old, "not now")
    with people.as_bob() as bobs:
        new = bobs.queue.acquire_job("pending", worker="w", lease=LONG, outlives=True)
        assert new
        assert new.id == old.id
    with people.as_ann() as anns:
        for do in ITEM_ACTS.values():
            with pytest.raises(ItemLost):
                do(anns.queue, old)
    with people.as_bob() as bobs:
        bobs.queue.fire(new, "accept")
