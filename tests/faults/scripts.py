"""The parts of single processes in the fault tests; each reports to the test over its channel."""

import time
from typing import Any

import headgate
from headgate import Gate, LockLost, Lost, Refused
from headgate.migrating import migrate
from headgate.service.leases.renewal import LockHold
from headgate.service.ledger.use_cases import Ledger
from tests.faults.processes import Channel, Message


def hold_and_learn(channel: Channel, url: str, resource: str, lease: float) -> None:
    """Hold a lock; report its loss without querying the store; then try every operation of a holder with it."""
    with headgate.connect(url) as gate:
        told: list[float] = []
        try:
            with gate.locks.held(
                "first", resource, lease=lease, on_lost=lambda _: told.append(time.monotonic())
            ) as hold:
                channel.send("held", token=hold.token, id=hold.id)
                while not told:
                    time.sleep(0.005)
                channel.send("lost", at=told[0], seen=hold.lost is not None)
                channel.receive()
                channel.send("refusals", errors=late_acts(gate, hold))
        except LockLost:
            channel.send("left", error="LockLost")
        else:
            channel.send("left", error="none")
        channel.receive()


def late_acts(gate: Gate, hold: LockHold) -> dict[str, str]:
    """The result of each operation: the name of its error."""
    acts: dict[str, Any] = {
        "check": gate.locks.check, "renew": gate.locks.renew, "release": gate.locks.release,
        "upgrade": gate.locks.upgrade, "downgrade": gate.locks.downgrade, "own check": lambda each: each.check(),
    }  # fmt: skip
    errors = {}
    for name, act in acts.items():
        try:
            act(hold)
        except Exception as error:  # noqa: BLE001 - the test says which it must be
            errors[name] = type(error).__name__
        else:
            errors[name] = "none"
    return errors


def use_first(channel: Channel, url: str, name: str, rounds: int) -> None:
    """On a signal from the test: connect, then read and write a resource that was never used before."""
    for _ in range(rounds):
        channel.send("ready")
        order = channel.receive()
        assert order is not None
        channel.send("served", **first_use(order.get("url", url), name, order["resource"]))
    channel.receive()


def first_use(url: str, name: str, resource: str) -> Message:
    with headgate.connect(url) as gate:
        with gate.locks.held(name, resource, "shared", wait=30, lease=30) as hold:
            tokens = [hold.token]
        with gate.locks.held(name, resource, "exclusive", wait=30, lease=30) as hold:
            tokens.append(hold.token)
    return {"tokens": tokens, "tag": gate.store.tag}


def take_over(channel: Channel, url: str) -> None:
    """On a signal from the test: migrate."""
    channel.send("ready")
    channel.receive()
    channel.send("migrated", lines=migrate(url).lines)


def obey(channel: Channel, url: str, **settings: str) -> None:
    """Run the operations that the test sends on a store, and return their results."""
    gate = headgate.connect(url, **settings)
    channel.send("ready")
    while order := channel.receive(600):
        try:
            answer = act(gate, order)
        except (Refused, Lost) as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        channel.send("answer", at=time.monotonic(), wall=time.time(), **answer)


def act(gate: Gate, order: Message) -> Message:
    """One operation; returns its result."""
    locks = gate.locks
    match order["kind"]:
        case "acquire" | "acquire all":
            return obtain(gate, order)
        case "release":
            locks.release(order["id"], order["token"])
            return {}
        case "upgrade" | "downgrade" | "renew" | "check" as name:
            lock = getattr(locks, name)(order["id"], order["token"])
            return {"token": lock.token, "expires_in": lock.expires_in}
        case "expire":
            return {"count": locks.expire()}
        case "clock":
            return {}
        case _:
            return act_on_ledger(gate.ledger, order)


def act_on_ledger(ledger: Ledger, order: Message) -> Message:
    """The message is the name of a method with its arguments."""
    getattr(ledger, order["kind"])(**{name: value for name, value in order.items() if name != "kind"})
    return {}


def obtain(gate: Gate, order: Message) -> Message:
    wants = order.get("wants") or {order["resource"]: order.get("mode", "exclusive")}
    locks = gate.locks.acquire_all(
        order["client"], wants, wait=order.get("wait", 0), lease=order.get("lease"), request_id=order.get("request_id")
    )
    return {"id": locks[0].id, "token": locks[0].token, "expires_in": locks[0].expires_in}
