"""Every row of the chunk's table, fired on every store: its target, and exactly its effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headgate import Gate
from headgate.core.ledger.model import EXTERNAL, Row
from headgate.core.tables.machine import Also, Transition
from headgate.core.tables.states import CHUNK
from headgate.service.ledger.use_cases import Ledger
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import WHY, claimed, clear, expire, one_job, told
from tests.contract.queue_steps import row_name
from tests.waiting import until

pytestmark = pytest.mark.parametrize("kind", SQL_STORES)
#: An unknown word represents all others.
WORDS = {"other": "lunch"}
#: The status before the claim, if a `when` of the table asks for it.
BEFORE = {
    "it was HOLD before the claim": "HOLD",
    "it was PENDING before the claim": "PENDING",
    "it had an unknown status before the claim": "other",
}
DOWNSTREAM = "it was made from a chunk that was named"
#: The mapping of an input that a `when` of the table asks for.
LATE = {"on_late is note": "note", "on_late is redo": "redo"}
#: The properties of a job without outputs that it asks for.
AGAIN = "it was done longer ago than recur"
#: The properties of the job that a `when` of the table asks for.
POLICIES: Mapping[str, dict[str, Any]] = {
    "on_failure is hold": {"on_failure": "hold"},
    "on_failure is rerun, and max_attempts is reached": {"max_attempts": 1},
    "max_crashes workers crashed on it": {"max_crashes": 1},
    "max_interruptions workers were stopped on it": {"max_interruptions": 1},
}


@dataclass(frozen=True)
class Picture:
    """The stored data about a chunk."""

    output: Row | None
    reads: bool
    #: Whether it needs an operator.
    incident: bool
    told: list[tuple[str, str, str]]

    def count(self, name: str) -> int:
        return 0 if self.output is None else int(getattr(self.output, name))


def words_of(row: Transition) -> tuple[str, str]:
    """The statuses that the history names."""
    words = WORDS | {"READY": "DONE"} if row.when == AGAIN else WORDS
    return words.get(row.source, row.source), words.get(row.target, row.target)


def picture(gate: Gate, job: str, dataset: str, read: str = "raw", kind: str = "OUTPUT") -> Picture:
    outputs = gate.ledger.status(dataset, job, "1", kind=kind)
    inputs = gate.ledger.status(read, job, "1", kind="INPUT") if read else []
    return Picture(outputs[0] if outputs else None, bool(inputs), bool(gate.incidents.list(job)), told(gate, job, "1"))


def effects(before: Picture, after: Picture) -> Also:
    """The other visible changes."""
    seen = Also.NOTHING
    if after.output is not None:
        seen |= Also.NEW_TOKEN if after.count("token") > before.count("token") else seen
        for counter, effect in COUNTERS.items():
            seen |= effect if after.count(counter) == before.count(counter) + 1 else seen
        if has_counts(before) and not has_counts(after):
            seen |= Also.CLEAR_COUNTS
        if after.count("attempt") == before.count("attempt") - 1:
            seen |= Also.RESTORE_ATTEMPT
    if before.reads and not after.reads:
        seen |= Also.CLEAR_INPUTS
    if before.incident is not after.incident:
        seen |= Also.OPEN_INCIDENT if after.incident else Also.CLOSE_INCIDENT
    return seen | Also.RECORD_HISTORY if len(after.told) > len(before.told) else seen


COUNTERS = {
    "attempt": Also.COUNT_ATTEMPT, "failures": Also.COUNT_FAILURE, "crashes": Also.COUNT_CRASH,
    "interruptions": Also.COUNT_INTERRUPTION,
}  # fmt: skip


def has_counts(found: Picture) -> bool:
    return bool(found.count("failures") or found.count("crashes"))


def hidden(before: Picture) -> Also:
    """Effects that are not visible: there was nothing to clear."""
    found = Also.NOTHING if has_counts(before) else Also.CLEAR_COUNTS
    found |= Also.NOTHING if before.incident else Also.CLOSE_INCIDENT
    return found if before.reads else found | Also.CLEAR_INPUTS


def put_in(ledger: Ledger, state: str, former: str = "") -> None:
    """The chunk that `clean` makes, in that state."""
    if state == "RUNNING" and former:
        put_in(ledger, former)
        ledger.force("clean", "1", reason=WHY)
    elif state == "HOLD":
        put_in(ledger, former or "absent")
        ledger.hold("clean", "1", reason=WHY)
    elif state in ("PENDING", "other"):
        ledger.set_status("tidy", "1", "clean", "OUTPUT", WORDS.get(state, state), reason=WHY)
    elif state != "absent":
        claim = claimed(ledger, "clean")
        if state == "ERROR":
            ledger.fail(claim, "no")
        elif state != "RUNNING":
            ledger.success(claim)
        if state == "RESUBMIT":
            ledger.resubmit("clean", "1", reason=WHY)


def fire(gate: Gate, row: Transition) -> None:
    """The event, fired by an actor that may do so."""
    ledger = gate.ledger
    token = next((each.token for each in ledger.status("tidy", "clean", "1", kind="OUTPUT")), 0)
    word = WORDS.get(row.target, row.target)
    acts: dict[str, Callable[[], object]] = {
        "publish": lambda: ledger.publish("raw", "1"),
        "claim": lambda: ledger.claim("clean", "1"),
        "success": lambda: ledger.success("clean", "1", token),
        "fail": lambda: ledger.fail("clean", "no", "1", token),
        "interrupt": lambda: ledger.interrupt("clean", "interrupted by SIGTERM", "1", token),
        "reap": ledger.reap,
        "force": lambda: ledger.force("clean", "1", reason=WHY, steal=True),
        "resubmit": lambda: ledger.resubmit("clean", "1", reason=WHY, steal=True),
        "hold": lambda: ledger.hold("clean", "1", reason=WHY),
        "unhold": lambda: ledger.unhold("clean", "1"),
        "forget": lambda: ledger.forget("clean", "1", reason=WHY, steal=True),
        "set_status": lambda: ledger.set_status("tidy", "1", "clean", "OUTPUT", word, reason=WHY),
    }
    if row.event == "reap":
        expire(gate, "1")
    acts[row.event]()


def test_every_row_leads_to_its_target_and_has_exactly_its_effects(
    gate: Gate, record_property: Callable[[str, Any], None]
) -> None:
    """One store for all of them, emptied between."""
    wrong: list[tuple[object, ...]] = []
    for row in CHUNK.rows:
        before, after = take(gate, row)
        source, target = words_of(row)
        found = "absent" if after.output is None else after.output.status, effects(before, after)
        if (found[0], found[1] | (row.also & hidden(before))) != (target, row.also):
            wrong.append((row.name, *found))
        if Also.RECORD_HISTORY in row.also and after.told[-1] != (row.event, source, target):
            wrong.append((row.name, *after.told[-1]))
        clear(gate, "hg_incident")
        record_property("transition", row_name(CHUNK, row))
    assert wrong == []


def take(gate: Gate, row: Transition, firing: Gate | None = None) -> tuple[Picture, Picture]:
    """The chunk before and after. `firing`: fires the event, if that is not the gate that prepares the chunk."""
    firing = firing or gate
    ledger = one_job(gate, **POLICIES.get(row.when, {}))
    if row.when == DOWNSTREAM:
        return take_downstream(gate, firing)
    if row.when in LATE:
        return take_late(gate, firing, LATE[row.when])
    if row.when == AGAIN:
        return take_again(gate, firing)
    job, dataset = (EXTERNAL, "raw") if row.event == "publish" else ("clean", "tidy")
    if job != EXTERNAL:
        ledger.publish("raw", "1")
        put_in(ledger, row.source, row.target if row.event == "unhold" else BEFORE.get(row.when, ""))
    elif row.source != "absent":
        ledger.set_status("raw", "1", EXTERNAL, "OUTPUT", row.source, reason=WHY)
    before = picture(gate, job, dataset)
    fire(firing, row)
    return before, picture(gate, job, dataset)


def take_late(gate: Gate, firing: Gate, on_late: str) -> tuple[Picture, Picture]:
    """A chunk that reads the previous one, which arrives when it is made."""
    ledger = gate.ledger
    window = {"kind": "window", "before": 1, "after": 0, "on_late": on_late}
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], maps={"raw": window})
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    before = picture(gate, "clean", "tidy")
    ledger.publish("raw", "0")
    assert claimed(firing.ledger, "clean").dataid == "0"
    return before, picture(gate, "clean", "tidy")


def take_again(gate: Gate, firing: Gate) -> tuple[Picture, Picture]:
    """A chunk of a job without outputs: it failed once, was done, and is processed again."""
    ledger = gate.ledger
    ledger.define_job("audit", inputs=["raw"], recur=0.001)
    ledger.publish("raw", "1")
    ledger.fail(claimed(ledger, "audit"), "no")
    ledger.success(claimed(ledger, "audit"))
    before = picture(gate, "audit", "raw", "", "INPUT")
    until(lambda: ledger.explain("audit", "1").granted, "it to be due")
    firing.ledger.claim("audit", "1")
    return before, picture(gate, "audit", "raw", "", "INPUT")


def take_downstream(gate: Gate, firing: Gate) -> tuple[Picture, Picture]:
    """A chunk that was made from another one, and is held when that one is redone."""
    ledger = gate.ledger
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "report"), "no")
    ledger.hold("report", "1", reason=WHY)
    before = picture(gate, "report", "rep", "tidy")
    firing.ledger.resubmit("clean", "1", reason=WHY, downstream=True)
    return before, picture(gate, "report", "rep", "tidy")
