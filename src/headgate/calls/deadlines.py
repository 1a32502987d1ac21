"""Deadlines: the moment by which a call to a store returns, including everything that it asks of the store.

A call with `wait=N` returns within N plus `answer_within` seconds. The deadline is set where the call begins and read
where the call waits: for a connection, for another transaction, for an answer. It belongs to the calling thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import wraps
from inspect import isfunction
from typing import Any, NamedTuple, TypeVar

#: Limits in seconds: for a query with a long answer, for a change of many rows, and for a whole migration, copy or
#: backup.
LISTING_SECONDS, BULK_SECONDS, WHOLE_SECONDS = 60.0, 600.0, 86_400.0
#: A change of up to this many rows is not a bulk operation.
FEW_ROWS = 100
#: Calls that do not wait for anything.
FREE = ("close", "listen", "listen_to", "watch_loss")
Kind = TypeVar("Kind", bound=type)


class Deadline(NamedTuple):
    """When a call must have returned, on `time.monotonic`."""

    #: The call must return by then.
    until: float
    #: It waits until then for the end of another client's transaction.
    busy: float
    #: The answer may take long, so silence does not mean that the connection is dead: it is checked first.
    slow: bool = False

    @property
    def left(self) -> float:
        """Seconds until the call must have returned; never negative."""
        return max(self.until - time.monotonic(), 0.0)

    @property
    def busy_left(self) -> float:
        """Seconds for which it may still wait for other transactions; never negative."""
        return max(self.busy - time.monotonic(), 0.0)


#: The deadline of this thread's current call.
_deadline: ContextVar[Deadline | None] = ContextVar("headgate_deadline", default=None)
#: When the caller sent the request, if that was before this thread began its work.
_asked: ContextVar[float] = ContextVar("headgate_asked", default=math.inf)


class within:  # noqa: N801 - reads as a statement: with within(2.0)
    """Within this block, calls return within that many seconds, counted from when the caller sent the request.

    `busy`: seconds to wait for other transactions (default: as long as for the call). `slow`: an answer may take long.
    An outer block that ends earlier takes precedence.
    """

    __slots__ = ("_busy", "_seconds", "_slow", "_token")

    def __init__(self, seconds: float, busy: float | None = None, *, slow: bool = False) -> None:
        self._seconds = seconds
        self._busy = seconds if busy is None else busy
        self._slow = slow

    def __enter__(self) -> Deadline:
        began = min(time.monotonic(), _asked.get())
        until, busy = began + self._seconds, began + self._busy
        outer = _deadline.get()
        if outer is not None:
            until, busy = min(until, outer.until), min(busy, outer.busy)
        deadline = Deadline(until, busy, self._slow)
        self._token: Token[Deadline | None] = _deadline.set(deadline)
        return deadline

    def __exit__(self, *_: object) -> None:
        _deadline.reset(self._token)


class asked_at:  # noqa: N801 - the same
    """Within this block, deadlines are counted from that moment (monotonic), not from when a thread was free."""

    __slots__ = ("_moment", "_token")

    def __init__(self, moment: float) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._token = _asked.set(self._moment)

    def __exit__(self, *_: object) -> None:
        _asked.reset(self._token)


def current(answer_within: float) -> Deadline:
    """The deadline of this thread's call; a call without one must return within that many seconds from now."""
    deadline = _deadline.get()
    if deadline is None:
        until = time.monotonic() + answer_within
        return Deadline(until, until)
    return deadline


def time_limit(seconds: float) -> float:
    """On the monotonic clock: that many seconds from now, or the deadline of this thread's call if that is sooner."""
    deadline = _deadline.get()
    until = time.monotonic() + seconds
    return until if deadline is None else min(until, deadline.until)


class Limit(NamedTuple):
    """The limits of a call in seconds, in total and for waiting for other transactions, and whether it is slow."""

    seconds: float
    busy: float
    slow: bool = False


#: From (answer_within, *arguments).
Rule = Callable[..., Limit]


def quick(answer_within: float, *_: object, **__: object) -> Limit:
    """A call about one or a few things."""
    return Limit(answer_within, answer_within)


def listing(answer_within: float, *_: object, **__: object) -> Limit:
    """A query with a long answer: it may take long, but waits no longer than others before it starts."""
    return Limit(LISTING_SECONDS, answer_within, slow=True)


def bulk(answer_within: float, *_: object, **__: object) -> Limit:
    """A change of many rows."""
    del answer_within
    return Limit(BULK_SECONDS, BULK_SECONDS, slow=True)


def of_rows(answer_within: float, _name: str, rows: Any, *_: object, **more: object) -> Limit:
    """A change of the named rows, and of those downstream if `downstream` is set."""
    if len(rows) <= FEW_ROWS and not more.get("downstream"):
        return quick(answer_within)
    return bulk(answer_within)


def of_listed(answer_within: float, *given: object, **more: object) -> Limit:
    """A report, with the data ids that it lists."""
    lists = next((each for each in (*given, *more.values()) if isinstance(each, Mapping)), {})
    return quick(answer_within) if sum(map(len, lists.values())) <= FEW_ROWS else bulk(answer_within)


def of_chunks(answer_within: float, which: Any) -> Limit:
    """A query about one or many data ids."""
    return listing(answer_within) if which.dataid is None else quick(answer_within)


def of_item(answer_within: float, item_id: str, *_: object, **__: object) -> Limit:
    """A change of one job, or of a batch with all its jobs."""
    return bulk(answer_within) if item_id.startswith("bid") else quick(answer_within)


def waiting(answer_within: float, _what: object, seconds: float) -> Limit:
    """A call that may wait for the given number of seconds."""
    return Limit(seconds + answer_within, seconds + answer_within)


#: The calls of each port that may take long.
HISTORY_CALLS: Mapping[str, Rule] = {"read": listing, "count": listing, "copy": bulk, "forget": bulk}
LOG_CALLS: Mapping[str, Rule] = {"forget": bulk, "oldest": listing}
LOCK_CALLS: Mapping[str, Rule] = {
    "list": listing, "summary": listing, "waiters": listing,
    "clients": listing, "resources": listing, "expire": bulk,
}  # fmt: skip
LEDGER_CALLS: Mapping[str, Rule] = {
    "define": bulk, "datasets": listing, "jobs": listing, "publish": of_rows,
    "success": of_listed, "resubmit": of_rows, "reap": bulk, "plan": listing, "left": listing, "rows": of_chunks,
    "failures": listing,
    "fan_in": listing, "readers": listing,
    "standing": listing, "tallies": listing, "spans": listing, "running": listing, "change_selected": bulk,
    "logs": listing, "recurrences": listing,
    "master_wraps": listing, "rewrap": bulk, "refuse_masters": bulk, "change_custody": bulk,
}  # fmt: skip
WATCH_CALLS: Mapping[str, Rule] = {"land": bulk, "counted": listing, "watchers": listing}
QUEUE_CALLS: Mapping[str, Rule] = {
    "create_jobs": bulk, "act": of_item, "set_hold": bulk, "holds": listing, "batches": listing, "jobs": listing,
    "job_ids": listing, "counts": listing, "reportable": listing, "cleanable": listing, "await_work": waiting,
    "expire": bulk, "faults": bulk, "repair": bulk, "daemons": listing,
}  # fmt: skip
INVENTORY_CALLS: Mapping[str, Rule] = {
    "known_local_ids": listing, "claim_local_ids": bulk, "record": bulk, "objects": listing, "versions": listing,
    "files": listing, "remove": bulk, "messages": listing, "due": listing,
}  # fmt: skip


EXPECTATION_CALLS: Mapping[str, Rule] = {"judge": bulk, "recover": bulk, "late": listing, "lateness": listing}
INCIDENT_CALLS: Mapping[str, Rule] = {
    "list": listing,
    "due": listing,
    "notices": listing,
    "report": bulk,
    "prune": bulk,
}


def answered_in_time(rules: Mapping[str, Rule]) -> Callable[[Kind], Kind]:
    """Give every public method of a port a deadline: `options.answer_within`, or what its rule says. A private method
    gets one if there is a rule for it.
    """

    def decorate(kind: Kind) -> Kind:
        for name, method in list(vars(kind).items()):
            if isfunction(method) and name not in FREE and (name in rules or not name.startswith("_")):
                setattr(kind, name, _by_rule(method, rules[name]) if name in rules else _quick(method))
        return kind

    return decorate


def _quick(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer_within = self.options.answer_within
        outer = _deadline.get()
        if outer is not None and outer.until <= time.monotonic() + answer_within:
            return method(self, *args, **kwargs)
        with within(answer_within):
            return method(self, *args, **kwargs)

    return call


def _by_rule(method: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        seconds, busy, slow = rule(self.options.answer_within, *args, **kwargs)
        with within(seconds, busy, slow=slow):
            return method(self, *args, **kwargs)

    return call
