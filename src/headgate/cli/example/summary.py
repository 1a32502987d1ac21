"""What became of the example: for people, for programs, and whether all is well."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headgate.cli.example.loading import ENDED, PAYLOADS, PIPELINE, Example
from headgate.cli.output import table
from headgate.core.ledger import Kind, Row
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.cli.example.folder import ExampleFolder
    from headgate.wiring import Gate


@dataclass
class Summary:
    """What there is, and what is not as it should be."""

    document: dict[str, Any]
    text: str
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The last words."""
        return "\n".join(f"NOT WELL: {each}" for each in self.problems) or "all well"


def summarize(gate: Gate, folder: ExampleFolder, example: Example) -> Summary:
    """Look at everything that the example has made, every stored byte too."""
    batches = {name: (bid, example.state(name)) for name, bid in example.batches.items()}
    stored = gate.inventory.objects()
    problems = [*_unmeant(example, batches), *_damage(gate, [each.ark for each in stored])]
    problems += [f"{fault.item}: {fault.what}" for fault in gate.faults()]
    failures = gate.ledger.failures()
    counts = {job: _counts(gate, job) for job in PIPELINE}
    problems += [f"job {job} has made nothing" for job, found in counts.items() if example.new and not found["READY"]]
    locks, holds = gate.locks.list(), gate.queue.holds()
    document = {
        "folder": str(folder.path), "batches": batches, "objects": [each.ark for each in stored],
        "chunks": counts, "failures": plain(failures), "locks": plain([lock.resource for lock in locks]),
        "holds": [hold.profile for hold in holds], "problems": problems,
    }  # fmt: skip
    lines = [
        f"The example, in {folder.path}:",
        table(("BATCH", "PAYLOAD", "STATE", "WHY"), _batch_rows(gate, example)),
        f"{len(stored)} objects are stored, and every byte of them is as the inventory says."
        if not problems else f"{len(stored)} objects are stored.",
        *(f"job {job}: {', '.join(f'{count} {word}' for word, count in sorted(found.items()))}"
          for job, found in counts.items()),
        *(_failed(folder, row) for row in failures if row.kind == Kind.OUTPUT),
        *(f"locked: {lock.resource} {lock.mode} by {lock.client}" for lock in locks),
        *(f"held: {hold.profile}: {hold.reason}" for hold in holds),
    ]  # fmt: skip
    return Summary(document, "\n".join(lines), problems)


def _failed(folder: ExampleFolder, row: Row) -> str:
    why = folder.command(f"job explain {row.job} {row.dataid}")
    return f"failed: {row.job} of {row.dataid}: {row.message}; why: {why}"


def _unmeant(example: Example, batches: dict[str, tuple[str, str]]) -> list[str]:
    """Batches that stand still, and new ones that ended as they should not."""
    still = [f"{bid} ({name}) is still {state}" for name, (bid, state) in batches.items() if state not in ENDED]
    wrong = [
        f"{bid} ({name}) is {state}, not {PAYLOADS[name].meant}"
        for name, (bid, state) in batches.items()
        if name in example.new and state in ENDED and state != PAYLOADS[name].meant
    ]
    return still + wrong


def _damage(gate: Gate, arks: list[str]) -> list[str]:
    from headgate.ingest.reading import unrecorded, verify_object

    found = [problem for ark in arks for problem in verify_object(gate.ingest, "example", ark, wait=30)]
    return [f"{each.object_id} {each.path}: {each.why}" for each in [*found, *unrecorded(gate.ingest)]]


def _counts(gate: Gate, job: str) -> Counter[str]:
    return Counter(row.status for row in gate.ledger.status(job=job, kind=Kind.OUTPUT))


def _batch_rows(gate: Gate, example: Example) -> list[tuple[str, str, str, str]]:
    return [(bid, name, example.state(name), _why(gate, bid)) for name, bid in example.batches.items()]


def _why(gate: Gate, bid: str) -> str:
    """What its jobs say where one failed, else what the batch says."""
    failed = gate.queue.jobs("failed", batch=bid)
    return failed[0].message if failed else ""
