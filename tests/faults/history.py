"""Recorded histories: the calls of each process and their answers, as lines of JSON.

One line is one event: `{"process", "type", "f", "key", "value", "time"}`. Its type is `invoke` (asked), `ok`
(answered with yes), `fail` (answered with no: nothing changed) or `info` (no answer: it may have happened or not).
A process does one thing at a time, so its events alternate. `time` is CLOCK_BOOTTIME, one clock for all processes.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: its call and its answer."""

    process: str
    #: The call, e.g. `acquire`.
    f: str
    #: The resource or the data id; operations on different keys are independent.
    key: str
    #: Arguments and results together.
    value: dict[str, Any] = field(hash=False)
    invoked: float
    #: Infinite for `info`: the effect may happen at any later time.
    ended: float
    outcome: str

    @property
    def required(self) -> bool:
        """False: it may never have happened."""
        return self.outcome != INFO

    def __str__(self) -> str:
        return f"{self.process} {self.f} {self.value} -> {self.outcome} [{self.invoked:.4f}, {self.ended:.4f}]"


def ops_of(events: Iterable[Event]) -> list[Op]:
    """The operations of a history. Unanswered ones end as `info`; those without a key at the end are left out."""
    asked: dict[str, Event] = {}
    found = []
    for event in events:
        if event["type"] == INVOKE:
            asked[event["process"]] = event
        else:
            found.append(_op(asked.pop(event["process"]), event))
    found += [_op(each, each | {"type": INFO, "value": {}}) for each in asked.values()]
    return sorted((op for op in found if op.key), key=lambda op: op.invoked)


def _op(asked: Event, answered: Event) -> Op:
    outcome = answered["type"]
    return Op(
        process=asked["process"],
        f=asked["f"],
        key=answered["key"] or asked["key"],
        value=asked["value"] | answered["value"],
        invoked=asked["time"],
        ended=math.inf if outcome == INFO else answered["time"],
        outcome=outcome,
    )


def by_key(ops: Iterable[Op]) -> dict[str, list[Op]]:
    """The operations on each key, in the order of their calls."""
    found: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        found[op.key].append(op)
    return found


def save(events: Iterable[Event], path: Path) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in events), encoding="utf-8")


def load(path: Path) -> list[Event]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
