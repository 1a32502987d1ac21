"""`headgate ingest audit`: verify stored objects periodically, as an ordinary job of the ledger.

The dataset of a collection has a chunk for each stored version, and follows the inventory: it is published when a
version is recorded, and withdrawn when the object is deleted. The job has a data id for each object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from headgate.cli.ingest.objects import Meter, problem_line
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import FAILED
from headgate.cli.terminal.options import common
from headgate.cli.terminal.values import DURATION
from headgate.core.errors import LockRefused, UnknownName
from headgate.core.values.durations import DAY, in_words
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain
from headgate.core.values.words import suggestion

if TYPE_CHECKING:
    from headgate.core.ledger.model import Claim, Job
    from headgate.gate import Gate
    from headgate.ingest.storage.port import Problem, Progress

#: The name prefix of these jobs.
PREFIX = "audit-"
#: Default number of seconds after which an object is audited again.
RECUR = 90.0 * DAY
#: Damage opens an incident at once: reading it again repairs nothing.
TRIES = 1
#: Number of problems that a reason names.
NAMED = 3
VERSIONS = {"kind": "split", "format": "{object}.v{version}", "job_format": "{object}", "need": "any"}


class Audit(NamedTuple):
    """The audit of one object; `busy`: it was in use, and will be audited the next time."""

    ark: str
    problems: Sequence[Problem]
    busy: str = ""


@click.command("audit", short_help="Verify the objects whose audit is due.")
@click.argument("collections", metavar="[COLLECTION]...", nargs=-1)
@click.option("--every", type=DURATION, help="How long an audit is valid, from now on (default: as defined, else 90d).")
@click.option("--wait", type=DURATION, default=60, help="Longest time to wait for writers of an object (default: 60s).")
@common
def audit(console: Console, collections: Sequence[str], every: float | None, wait: float) -> int:
    """Verify the objects of the COLLECTIONs, or of all, whose last audit is older than 90 days (or --every).

    Each collection has a job, audit-COLLECTION, which is defined when it is missing: an ordinary job of the ledger with
    recur, one data id for each object. Run this as often as you like, on several machines at once: each object is
    audited by one of them, when it is due. An object with damage is a failed chunk and an incident, and is not audited
    again until it is resubmitted. Exit code 1: problems.

    \b
    Examples:
      headgate ingest audit
      headgate ingest audit maps --every 30d
      headgate job resubmit audit-maps ark_99999_fk4m3 --reason "copied back"
    """
    rows, problems = [], list[str]()
    meter = Meter(console, 0)
    with console.gate() as gate:
        for job in audit_jobs(gate, collections, every):
            count = 0
            for each in audit_due(gate, job, console.client(), wait=wait, progress=meter.read):
                meter.next()
                count += not each.busy
                problems += [problem_line(problem) for problem in each.problems]
                if each.busy:
                    console.say(f"{each.ark} is in use, and is audited the next time: {each.busy}")
            rows.append({"job": job.name, "every": job.recur, "audited": count})
    meter.end()
    lines = [f"{row['job']}: {plural(int(str(row['audited'])), 'object')} audited, due every "
             f"{in_words(float(str(row['every'])))}" for row in rows]  # fmt: skip
    console.answer({"jobs": plain(rows), "problems": problems}, lambda: "\n".join([*problems, *lines]) or "no objects")
    return FAILED if problems else 0


def audit_jobs(gate: Gate, collections: Sequence[str], every: float | None) -> list[Job]:
    """The audit jobs of these collections, or of all that have objects. Missing ones are defined."""
    there = {name for each in gate.inventory.objects() for name in each.collections}
    there &= {each.name for each in gate.ledger.datasets()}
    strange = next((name for name in collections if name not in there), None)
    if strange is not None:
        hint = suggestion(strange, sorted(there)) if there else "no object is stored yet"
        raise UnknownName("collection with stored objects", strange, hint)
    known = {job.name: job for job in gate.ledger.jobs()}
    for name in collections or sorted(there):
        job = known.get(PREFIX + name)
        if job is None or (every is not None and job.recur != every):
            tries = TRIES if job is None else job.max_attempts
            recur = RECUR if every is None else every
            gate.ledger.define_job(
                PREFIX + name, inputs=[name], recur=recur, max_attempts=tries, maps={name: VERSIONS}
            )  # fmt: skip
    return [gate.ledger.job(PREFIX + name)[0] for name in collections or sorted(there)]


def audit_due(gate: Gate, job: Job, client: str, *, wait: float, progress: Progress) -> Iterator[Audit]:
    """Audit the due objects of a job, one after another. An object that is in use ends this for now."""
    from headgate.service.leases.clock import steady
    from headgate.service.leases.renewal import ClaimHold

    seen = set[str]()
    while True:
        sent = steady()
        claim = gate.ledger.find_next(job.name)
        if claim is None:
            return
        if claim.dataid in seen:  # It is due again already: this would never end.
            gate.ledger.interrupt(claim, "it was audited just now")
            return
        seen.add(claim.dataid)
        hold = ClaimHold(gate.ledger.heartbeat, claim, sent)
        hold.start()
        try:
            found = _verify(gate, claim, client, wait=wait, progress=progress)
        except BaseException as error:
            gate.ledger.interrupt(claim, f"interrupted: {type(error).__name__}: {error}")
            raise
        finally:
            hold.stop()
        _report(gate, claim, found)
        yield found
        if found.busy:
            return


def _verify(gate: Gate, claim: Claim, client: str, *, wait: float, progress: Progress) -> Audit:
    from headgate.ingest.formats.ark import of_lock_name

    ark = str(of_lock_name(claim.dataid))
    try:
        problems = gate.verify(client, ark, wait=wait, progress=progress)
    except LockRefused as error:
        return Audit(ark, (), str(error))
    return Audit(ark, [each for each in problems if not each.is_warning])


def _report(gate: Gate, claim: Claim, found: Audit) -> None:
    if found.busy:
        gate.ledger.interrupt(claim, f"the object is in use: {found.busy}")
    elif found.problems:
        named = "; ".join(f"{each.path}: {each.why}" for each in found.problems[:NAMED])
        more = len(found.problems) - NAMED
        gate.ledger.fail(claim, named + (f"; and {more:,} more" if more > 0 else ""))
    else:
        gate.ledger.success(claim)
