"""Operations that are interrupted at every step, and the check that each happened completely or not at all.

The expected result is not written down but observed: the operation is run once on another resource without
interruption.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headgate import Gate, Lock
from tests.contract.steps import queue_behind
from tests.faults.processes import Message
from tests.waiting import until

State = tuple[object, ...]
#: An operation on several resources uses the case's own and these, in these modes.
SUFFIXES = {"": "exclusive", "/2": "shared", "/3": "exclusive"}


@dataclass(slots=True)
class Ready:
    """The preparations are done: run this."""

    order: Message
    #: A client that waits meanwhile, and has to be served by the operation.
    waiting: list["Future[Lock]"] = field(default_factory=list)


def state_of(gate: Gate, resource: str) -> State:
    """The state of a case's resources, without names: holders, waiters, tokens, and the history."""
    return tuple(_state_of_one(gate, resource + suffix) for suffix in SUFFIXES)


def _state_of_one(gate: Gate, resource: str) -> State:
    holders = sorted((lock.client, lock.mode.value, lock.token) for lock in gate.locks.list(resource=resource))
    waiters = sorted((waiter.client, waiter.mode.value) for waiter in gate.locks.waiters(resource))
    entries = [entry for entry in gate.history(resource=resource) if entry.event != "refuse"]
    return tuple(holders), tuple(waiters), tuple(sorted((e.event, e.client, e.token) for e in entries))


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    prepare: Callable[[Gate, str], Ready]
    #: The errors with which a repeat reports that it has been done already.
    done_already: tuple[str, ...] = ()
    #: Cut at no more than this many messages: waiters poll, and all polls are alike.
    most: int = 60
    #: False: a repeat has another effect.
    repeatable: bool = True
    #: The state of the resources of the operation.
    state: Callable[[Gate, str], State] = state_of


def _acquire(mode: str, **more: Any) -> Callable[[Gate, str], Ready]:
    def prepare(_gate: Gate, resource: str) -> Ready:
        order = {"kind": "acquire", "client": "actor", "resource": resource, "mode": mode, "request_id": resource}
        return Ready(order | more)

    return prepare


def _acquire_beside_a_reader(gate: Gate, resource: str) -> Ready:
    gate.locks.acquire("reader", resource, "shared")
    return _acquire("shared")(gate, resource)


def _acquire_all(_gate: Gate, resource: str) -> Ready:
    wants = {resource + suffix: mode for suffix, mode in SUFFIXES.items()}
    return Ready({"kind": "acquire all", "client": "actor", "wants": wants, "request_id": resource})


def _give_up_waiting(gate: Gate, resource: str) -> Ready:
    gate.locks.acquire("holder", resource, "exclusive")
    return _acquire("exclusive", wait=0.1)(gate, resource)


def _with_lock(kind: str, mode: str) -> Callable[[Gate, str], Ready]:
    def prepare(gate: Gate, resource: str) -> Ready:
        lock = gate.locks.acquire("actor", resource, mode)
        return Ready({"kind": kind, "id": lock.id, "token": lock.token})

    return prepare


def _release_beside_a_reader(gate: Gate, resource: str) -> Ready:
    gate.locks.acquire("reader", resource, "shared")
    return _with_lock("release", "shared")(gate, resource)


def _release_to_a_waiter(gate: Gate, resource: str) -> Ready:
    ready = _with_lock("release", "exclusive")(gate, resource)
    ready.waiting = [queue_behind(gate, "heir", resource, "exclusive")]
    return ready


CASES = {
    case.name: case
    for case in (
        Case("acquire", _acquire("exclusive")),
        Case("acquire beside a reader", _acquire_beside_a_reader),
        Case("acquire all", _acquire_all),
        Case("release", _with_lock("release", "exclusive"), ("LockLost",)),
        Case("release beside a reader", _release_beside_a_reader, ("LockLost",)),
        Case("release to a waiter", _release_to_a_waiter, ("LockLost",)),
        Case("upgrade", _with_lock("upgrade", "shared"), ("LockLost", "TransitionRefused")),
        Case("downgrade", _with_lock("downgrade", "exclusive"), ("TransitionRefused",)),
        Case("give up waiting", _give_up_waiting, ("LockRefused",), most=6),
    )
}


def await_waiters(ready: Ready) -> None:
    """Every waiter has been served."""
    for each in ready.waiting:
        until(each.done, "a waiter to be served")
        each.result()


def whole(case: Case, gate: Gate, perform: Callable[[Message], object]) -> State:
    """Run it without interruption, on another resource, and return the result."""
    resource = f"whole:{case.name}"
    ready = case.prepare(gate, resource)
    perform(ready.order)
    await_waiters(ready)
    return case.state(gate, resource)
