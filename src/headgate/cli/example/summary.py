"""What happened to the example: for people, for programs, what failed on purpose and how to fix it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headgate.cli.example.loading import ENDED, PAYLOADS, PIPELINE, Example
from headgate.cli.terminal.output import table
from headgate.core.ledger.model import READY, Kind
from headgate.core.queue.model import FAILED, HELD
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.cli.example.folder import ExampleFolder
    from headgate.gate import Gate

#: A description of the example.
SHOWS = (
    "A web server on this machine offers a small collection. Ingest downloads it, checks every file, stores it as "
    "preserved objects, and records them. A pipeline then counts the words of each object (job count) and finds the "
    "longest one (job longest)."
)


@dataclass(frozen=True, slots=True)
class Repair:
    """An intentional problem, and the commands that fix it."""

    what: str
    how: str
    commands: list[str]


@dataclass
class Summary:
    """The content of the example's store, and unexpected problems."""

    document: dict[str, Any]
    text: str
    repairs: list[Repair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The last line."""
        if self.problems:
            return "\n".join(f"NOT AS IT SHOULD BE: {each}" for each in self.problems)
        return "Everything else worked." if self.repairs else "Everything worked."


def summarize(gate: Gate, folder: ExampleFolder, example: Example, *, once: bool) -> Summary:
    """Check everything that the example has made, including every stored byte. `once`: the example ends now."""
    batches = {name: (bid, example.state(name)) for name, bid in example.batches.items()}
    stored = gate.inventory.objects()
    problems = [*_unmeant(example, batches), *_damage(gate, [each.ark for each in stored]), *example.stalled]
    problems += [f"{fault.item}: {fault.what}" for fault in gate.faults()]
    counts = {job: _counts(gate, job) for job in PIPELINE}
    problems += [f"job {job} has made nothing" for job, found in counts.items() if example.new and not found[READY]]
    locks, holds = gate.locks.list(), gate.queue.holds()
    repairs = list(_repairs(gate, folder, batches))
    document = {
        "folder": str(folder.path), "batches": batches, "objects": [each.ark for each in stored],
        "chunks": counts, "failures": plain(gate.ledger.failures()), "locks": plain([lock.resource for lock in locks]),
        "holds": [hold.profile for hold in holds], "repairs": plain(repairs), "problems": problems,
    }  # fmt: skip
    lines = [
        SHOWS,
        "",
        table(("BATCH", "PAYLOAD", "STATE"), [(bid, name, state) for name, (bid, state) in batches.items()]),
        f"{len(stored)} objects are stored" + ("" if problems else ", and every byte matches the inventory"),
        *(f"job {job}: {', '.join(f'{count} {word}' for word, count in sorted(found.items()))}"
          for job, found in counts.items()),
        *(f"lock: {lock.resource} {lock.mode} by {lock.client}" for lock in locks),
        *_repair_lines(folder, repairs, once=once),
        "",
    ]  # fmt: skip
    return Summary(document, "\n".join(lines), repairs, problems)


def _repairs(gate: Gate, folder: ExampleFolder, batches: dict[str, tuple[str, str]]) -> Iterator[Repair]:
    """The intentional problems that nobody has fixed yet."""
    headgate = folder.program
    torn, state = batches.get("torn.checkm", ("", ""))
    for job in gate.queue.jobs(FAILED, batch=torn) if torn else ():
        yield Repair(
            f"Ingest job {job.id} failed: {job.message}",
            "A file was damaged on the web server after its manifest was written. Replace it, and resume the job:",
            ["cp origin/tide-table/tides.csv origin/torn/tides.csv", f"{headgate} ingest resume {job.id}"],
        )
    if state == FAILED and not gate.queue.jobs(FAILED, batch=torn):
        yield Repair(
            f"Batch {torn} is still reported as failed, although its ingest job has completed by now",
            "Report what has changed:",
            [f"{headgate} ingest update-report {torn}"],
        )
    for row in gate.ledger.failures():
        if row.kind == Kind.OUTPUT and row.job == "count":
            yield Repair(
                f"Chunk {row.dataid} of job count failed: {row.message}",
                "The object is a drawing. Count the words of drawings too, and rerun the chunk:",
                [
                    "echo '*.svg' >>kinds.txt",
                    f"{headgate} job resubmit count {row.dataid} --reason 'count drawings too'",
                ],
            )
    attic, state = batches.get("attic.checkm", ("", ""))
    if state == HELD:
        hold = next((f": {each.reason}" for each in gate.queue.holds() if each.profile == "attic"), "")
        yield Repair(
            f"Batch {attic} is held{hold}",
            "End the hold of its collection, and release the batch:",
            [*([f"{headgate} ingest unhold attic"] if hold else []), f"{headgate} ingest release {attic}"],
        )


def _repair_lines(folder: ExampleFolder, repairs: list[Repair], *, once: bool) -> Iterator[str]:
    if not repairs:
        return
    yield ""
    many = len(repairs) > 1
    what = f"{len(repairs)} things are wrong on purpose" if many else "One thing is wrong on purpose"
    yield f"{what}. To fix {'them' if many else 'it'}, type in another shell:"
    yield f"  cd {folder.quoted_path}"
    for number, repair in enumerate(repairs, 1):
        yield ""
        yield f"{number}. {repair.what}"
        yield f"   {repair.how}"
        yield from (f"     {command}" for command in repair.commands)
    yield ""
    yield (
        "Then start the example again, which completes the work."
        if once
        else "The running example then completes the work at once."
    )


def _unmeant(example: Example, batches: dict[str, tuple[str, str]]) -> list[str]:
    """Batches that make no progress, and new ones with an unexpected end."""
    still = [f"{bid} ({name}) is still {state}" for name, (bid, state) in batches.items() if state not in ENDED]
    wrong = [
        f"{bid} ({name}) is {state}, not {PAYLOADS[name].meant}"
        for name, (bid, state) in batches.items()
        if name in example.new and state in ENDED and state != PAYLOADS[name].meant
    ]
    return still + wrong


def _damage(gate: Gate, arks: list[str]) -> list[str]:
    from headgate.ingest.objects.reading import unrecorded, verify_object

    found = [problem for ark in arks for problem in verify_object(gate.ingest, "example", ark, wait=30)]
    return [f"{each.object_id} {each.path}: {each.why}" for each in [*found, *unrecorded(gate.ingest)]]


def _counts(gate: Gate, job: str) -> Counter[str]:
    return Counter(row.status for row in gate.ledger.status(job=job, kind=Kind.OUTPUT))
