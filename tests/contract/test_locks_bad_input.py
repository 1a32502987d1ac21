"""Bad input: the right error, which names the value, and nothing is written."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import headgate
from headgate import BadValue, ForeignStore, Gate, HeadgateError, Invalid, LockLost, LockRefused, UnknownName
from tests.contract.steps import LONG, Gates, everything

R = "mysql://db1/core"

NOT_TEXT = [None, 7, 7.5, True, b"bytes", ["list"], ("tuple",), object]
NOT_PRINTABLE = [
    "tab\there",
    "line\nbreak",
    "nul\0byte",
    "\x1b[31m",
    "bell\x07",
    "\x85",
    "\u2028",
    "\ud800",
    "\u200b",
    "\ufeff",
]
EMPTY = ["", " ", "   ", "\t", "\u00a0", "\u3000"]

BAD_RESOURCES = [*NOT_TEXT, *NOT_PRINTABLE, *EMPTY, "x" * 2049, "\U0001f512" * 2049]
BAD_CLIENTS = [*NOT_TEXT, *NOT_PRINTABLE, *EMPTY, "x" * 256, "with/slash", "/"]
BAD_MODES = [None, 7, b"read", "", " ", "reads", "r", "w", "read ", "shared,exclusive", "\u017fhared", ["read"]]
BAD_SECONDS = [-1, -0.001, -math.inf, math.nan, True, False, "5", b"5", [5], 5j]
BAD_WAITS = [*BAD_SECONDS, None]
BAD_LEASES = [*BAD_SECONDS, 0, 0.0, math.inf, 1e300, 1e13, 10**400]
BAD_TOKENS = [None, 0, -1, True, "1", 1.0, b"1", 2**63, 10**30]
BAD_LIMITS = [0, -1, True, "5", 2.5, [1]]

Ask = Callable[[Gate, Any], object]

ASKING: dict[str, tuple[Ask, list[Any], str]] = {
    "the client of acquire": (lambda gate, bad: gate.locks.acquire(bad, R, "read"), BAD_CLIENTS, "client"),
    "the resource of acquire": (lambda gate, bad: gate.locks.acquire("a", bad, "read"), BAD_RESOURCES, "resource"),
    "the mode of acquire": (lambda gate, bad: gate.locks.acquire("a", R, bad), BAD_MODES, "mode"),
    "the wait of acquire": (lambda gate, bad: gate.locks.acquire("a", R, "read", wait=bad), BAD_WAITS, "wait"),
    "the lease of acquire": (lambda gate, bad: gate.locks.acquire("a", R, "read", lease=bad), BAD_LEASES, "lease"),
    "the note of acquire": (
        lambda gate, bad: gate.locks.acquire("a", R, "read", note=bad),
        [7, b"note", *NOT_PRINTABLE, "x" * 1001],
        "note",
    ),
    "the request id of acquire": (
        lambda gate, bad: gate.locks.acquire("a", R, "read", request_id=bad),
        [7, b"id", *NOT_PRINTABLE, *EMPTY, "x" * 201],
        "request id",
    ),
    "the client of list": (lambda gate, bad: gate.locks.list(client=bad), BAD_CLIENTS[1:], "client"),
    "the resource of list": (lambda gate, bad: gate.locks.list(resource=bad), BAD_RESOURCES[1:], "resource"),
    "the mode of list": (lambda gate, bad: gate.locks.list(mode=bad), BAD_MODES[1:], "mode"),
    "the limit of list": (lambda gate, bad: gate.locks.list(limit=bad), BAD_LIMITS, "limit"),
    "the start of list": (lambda gate, bad: gate.locks.list(after=bad), [7, b"id", "", "nul\0byte"], "lock id"),
    "the resource of waiters": (lambda gate, bad: gate.locks.waiters(bad), BAD_RESOURCES[1:], "resource"),
    "the resource of history": (lambda gate, bad: gate.history(bad), BAD_RESOURCES[1:], "resource"),
    "the client of history": (lambda gate, bad: gate.history(client=bad), BAD_CLIENTS[1:], "client"),
    "the event of history": (lambda gate, bad: gate.history(event=bad), ["granted", "", 7, "wait"], "event"),
    "the limit of history": (lambda gate, bad: gate.history(limit=bad), [*BAD_LIMITS, None], "limit"),
    "the end of history": (lambda gate, bad: gate.history(after=bad), ["5", "1.-5", "1.2_3", ""], "after"),
    "the start of history": (lambda gate, bad: gate.history(since=bad), ["yesterday", 7, True], "since"),
    "the lock of history": (lambda gate, bad: gate.history(lock_id=bad), [7, b"id", "", "nul\0byte"], "lock id"),
    "the mode of held": (lambda gate, bad: gate.locks.held("a", R, bad).__enter__(), BAD_MODES, "mode"),
    "the lease of held": (lambda gate, bad: gate.locks.held("a", R, lease=bad).__enter__(), BAD_LEASES, "lease"),
}


@pytest.mark.parametrize("what", ASKING)
def test_bad_input_is_named_and_nothing_is_written(gate: Gate, what: str) -> None:
    ask, bad_values, word = ASKING[what]
    before = everything(gate)
    for bad in bad_values:
        with pytest.raises(BadValue) as error:
            ask(gate, bad)
        assert error.value.what == word, f"{bad!r}: {error.value}"
        assert error.value.value is bad or error.value.value == bad
        assert shown(bad) in str(error.value)
    assert everything(gate) == before


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:60]


def test_an_infinite_wait_is_allowed(gate: Gate) -> None:
    assert gate.locks.acquire("a", R, "read", wait=math.inf).client == "a"


def test_the_longest_names_are_allowed(gate: Gate) -> None:
    lock = gate.locks.acquire("c" * 255, "r" * 2048, "write", note="n" * 1000, request_id="i" * 200)
    gate.locks.break_lock(lock.id, reason="w" * 1000, by="b" * 255)
    assert len(gate.history()) == 2


# ------------------------------------------------------------------ lock ids and tokens


def by_id(gate: Gate) -> dict[str, Callable[[Any, Any], object]]:
    """All requests with a lock's id and token."""
    locks = gate.locks
    return {
        "release": locks.release,
        "renew": locks.renew,
        "check": locks.check,
        "upgrade": locks.upgrade,
        "downgrade": locks.downgrade,
        "get": lambda lock_id, _: locks.get(lock_id),
        "break": lambda lock_id, _: locks.break_lock(lock_id, reason="why"),
    }


def test_a_malformed_lock_id_is_a_bad_value(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    tag, key, request = lock.id.split("-")
    malformed = [
        None, 7, b"bytes", "", " ", "nonsense", R, f"{tag}-{key}", f"{tag}-{key}-{request}-x", f"{tag}{key}{request}",
        f"{tag}-{key[:-1]}-{request}", f"{tag}-{key}-{request}x", f" {lock.id}", f"{lock.id}\n",
        f"{tag}-{key[:-1]}\0-{request}", f"{tag}-{key}-{request[:-1]}\ud800", f"{tag}-{key[:-1]}'-{request}",
        lock.id.upper(), f"{tag}-{'/' * 16}-{request}",
    ]  # fmt: skip
    before = everything(gate)
    for bad in malformed:
        for name, act in by_id(gate).items():
            with pytest.raises(BadValue) as error:
                act(bad, 1)
            assert error.value.what == "lock id", f"{name} {bad!r}: {error.value}"
            assert shown(bad) in str(error.value)
    assert everything(gate) == before


def test_a_lock_id_of_another_store_is_recognised_at_once(gate: Gate, tmp_path: Any) -> None:
    """A client with the wrong URL gets that error, rather than the loss of the lock."""
    with headgate.connect(f"sqlite:///{tmp_path}/elsewhere.sqlite") as elsewhere:
        foreign = elsewhere.locks.acquire("a", R, "write")
    gate.locks.acquire("a", R, "write")
    before = everything(gate)
    for act in by_id(gate).values():
        with pytest.raises(ForeignStore, match="HEADGATE_URL") as error:
            act(foreign.id, foreign.token)
        assert foreign.id in str(error.value)
    assert everything(gate) == before


def test_a_malformed_token_is_a_bad_value(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    before = everything(gate)
    for name in ("release", "renew", "check", "upgrade", "downgrade"):
        for bad in BAD_TOKENS:
            with pytest.raises(BadValue) as error:
                by_id(gate)[name](lock.id, bad)
            assert error.value.what == "token"
            assert repr(bad) in str(error.value)
    assert everything(gate) == before


def test_the_largest_token_is_valid_input_but_wrong(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    with pytest.raises(LockLost):
        gate.locks.check(lock.id, 2**63 - 1)


def test_an_altered_lock_object_is_judged_by_its_id_and_token(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    with pytest.raises(LockLost):
        gate.locks.release(replace(lock, token=lock.token + 1))
    gate.locks.release(replace(lock, client="whoever"))


def test_a_bad_lease_renews_nothing(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write", lease=LONG)
    for bad in BAD_LEASES:
        with pytest.raises(BadValue, match="lease"):
            gate.locks.renew(lock, lease=bad)  # type: ignore[arg-type]
    assert gate.locks.get(lock.id).lease == LONG


def test_a_bad_operator_breaks_nothing(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    for bad in ("", "line\nbreak", 7, "x" * 256):
        with pytest.raises(BadValue) as error:
            gate.locks.break_lock(lock.id, reason="why", by=bad)  # type: ignore[arg-type]
        assert error.value.what == "by"
    assert gate.locks.check(lock).alive


def test_a_misspelt_argument_is_a_type_error(gate: Gate) -> None:
    with pytest.raises(TypeError, match="lese"):
        gate.locks.acquire("a", R, "write", lese=60)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="ressource"):
        gate.locks.list(ressource=R)  # type: ignore[call-arg]
    assert gate.locks.list() == []


def test_an_unknown_lock_of_this_store_is_unknown_or_lost(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    never = lock.id[:-12] + "aaaaaaaaaaaa"
    for name, act in by_id(gate).items():
        with pytest.raises(UnknownName if name in ("get", "break") else LockLost, match=never):
            act(never, 1)


def test_wrong_input_is_distinguished_from_a_refusal(gates: Gates) -> None:
    """Bad input is refused even if the resource is busy: it would not be valid later either."""
    gate = gates.open()
    gate.locks.acquire("a", R, "write")
    with pytest.raises(Invalid):
        gate.locks.acquire("b", R, "readwrite")
    assert not issubclass(LockRefused, Invalid)
    assert issubclass(Invalid, HeadgateError)


@pytest.mark.parametrize("delay", ["-1", "nan", "soon", "inf", "1e300", "true"])
def test_an_invalid_lock_delay_is_refused_on_opening(gates: Gates, delay: str) -> None:
    with pytest.raises(BadValue, match="lock_delay"):
        gates.open(lock_delay=delay)
