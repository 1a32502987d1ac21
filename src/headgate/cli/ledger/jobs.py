"""Commands for jobs: claiming and reporting, explaining and planning, and operators' actions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.ledger.claim_files import read_ids
from headgate.cli.ledger.dataids import EXACT, ONE, DataIdRange, Selection
from headgate.cli.ledger.job_acts import STEAL, answer_changes, forget, hold, resubmit, unhold
from headgate.cli.ledger.job_logs import logs
from headgate.cli.ledger.job_run import run
from headgate.cli.ledger.job_wait import wait
from headgate.cli.ledger.next_claim import claim_chunk, next_or_named, nothing_to_do
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import NOTHING_TO_DO
from headgate.cli.terminal.options import (
    ANY_REASON,
    JOB_NAME,
    REASON,
    InOrder,
    common,
    limit_option,
    tabular,
    together,
)
from headgate.cli.terminal.output import pairs, table
from headgate.cli.terminal.values import DATASET, DURATION, KIND, STATUS
from headgate.core.errors import BadValue, NotAllowed
from headgate.core.ledger.model import ERROR, FAIL_EVENT, HOLD, INTERRUPT_EVENT, SUCCESS_EVENT
from headgate.core.ledger.parsing import STATUS_WORDS
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain
from headgate.core.values.words import nearest

if TYPE_CHECKING:
    from headgate.core.ledger.model import Claim
    from headgate.core.ledger.ranges import Members
    from headgate.core.ledger.verdicts import Verdict

#: A job's chunk. The data id is taken literally: it comes from a claim.
CHUNK = together(JOB_NAME, click.argument("dataid", metavar="DATAID"))
#: The same, entered by a user: a range is refused.
TYPED_CHUNK = together(JOB_NAME, click.argument("dataid", metavar="DATAID", type=ONE), EXACT)
TOKEN = click.option("--token", type=int, required=True, metavar="N", help="Token of the claim.")
LEASE = click.option(
    "--lease", type=DURATION, default=60, help="Time until the claim expires without a heartbeat (default: 60s)."
)


@click.group("job", cls=InOrder)
def job() -> None:
    """Run jobs on the chunks of datasets: claim, report, explain, rerun, hold.

    A job reads datasets and makes others. Its chunks become available when all inputs with the same data id are READY.

    \b
    Examples:
      headgate job run clean --loop -- ./clean.sh
      headgate job next clean --json
      headgate job success clean 2026-11-01 --token 12
      headgate job explain clean 2026-11-01
      headgate job logs clean 2026-11-01
      headgate job resubmit clean 2026-11-01 --reason "wrong rates" --downstream

    \b
    A quick look, after headgate init:
      printf '[dataset]\\nraw = {}\\ntidy = {}\\n' >quick.toml
      printf '[job.clean]\\ninputs = ["raw"]\\noutputs = ["tidy"]\\n' >>quick.toml
      headgate define quick.toml && headgate data publish raw 1..3
      headgate job run clean --loop -- sh -c 'echo making $HEADGATE_DATAID'
      headgate job explain clean 1
    """


job.add_command(run)
job.add_command(wait)
job.add_command(logs)


@job.command("next")
@next_or_named
@LEASE
@common
def next_chunk(console: Console, job_name: str, dataid: str | None, worker: str | None, lease: float) -> int:
    """Claim the next available chunk of JOB, and print it. Exit code 3 if there is nothing to do.

    The claim outlives this command: report with `job success`, `job fail` or `job interrupt` before the lease expires,
    or renew it with `job heartbeat`.

    With the job's key in HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE the JSON contains the secrets of its datasets. With
    a wrong key nothing is claimed (exit code 77). Without a key the secrets are masked, and `keys open` decrypts them.
    """
    with console.gate() as gate:
        claim = claim_chunk(gate.ledger, job_name, dataid, worker=worker, lease=lease)
        if claim is None:
            console.say(nothing_to_do(console, gate.ledger, job_name))
            return NOTHING_TO_DO
    _answer_claim(console, claim)
    return 0


@job.command("success")
@CHUNK
@TOKEN
@click.option(
    "--ids-from", metavar="DATASET=FILE", multiple=True,
    help="Data ids that were made in a fan-out dataset, one per line; - reads them from stdin.",
)  # fmt: skip
@common
def success(console: Console, job_name: str, dataid: str, token: int, ids_from: Sequence[str]) -> None:
    """Report that a claimed chunk succeeded."""
    outputs = dict(map(_listed_in, ids_from)) if ids_from else None
    console.ask(lambda gate: gate.ledger.success(job_name, dataid, token, outputs=outputs))
    _answer_report(console, job_name, dataid, SUCCESS_EVENT, "done")


def _listed_in(word: str) -> tuple[str, list[str]]:
    """A dataset, and the data ids in its file."""
    name, equals, file = word.partition("=")
    if not (name and equals and file):
        raise click.UsageError(f"--ids-from {word!r} is not of the form DATASET=FILE, for example parts=ids.txt")
    try:
        return name, read_ids(file)
    except OSError as error:
        raise BadValue("ids-from", file, f"cannot be read: {error.strerror or error}") from None


@job.command("fail")
@CHUNK
@TOKEN
@click.option("--message", default="", help="Reason of the failure.")
@common
def fail(console: Console, job_name: str, dataid: str, token: int, message: str) -> None:
    """Report that a claimed chunk failed."""
    console.ask(lambda gate: gate.ledger.fail(job_name, message, dataid, token))
    _answer_report(console, job_name, dataid, FAIL_EVENT, "failed")


@job.command("interrupt")
@CHUNK
@TOKEN
@click.option("--message", default="", help="Reason, for example the signal.")
@common
def interrupt(console: Console, job_name: str, dataid: str, token: int, message: str) -> None:
    """Report that the worker of a claimed chunk was asked to stop. No attempt is used up."""
    console.ask(lambda gate: gate.ledger.interrupt(job_name, message, dataid, token))
    _answer_report(console, job_name, dataid, INTERRUPT_EVENT, "interrupted")


@job.command("heartbeat")
@CHUNK
@TOKEN
@click.option("--lease", type=DURATION, default=60, help="New lease length (default: 60s).")
@common
def heartbeat(console: Console, job_name: str, dataid: str, token: int, lease: float) -> None:
    """Renew the lease of a claimed chunk."""
    left = console.ask(lambda gate: gate.ledger.heartbeat(job_name, dataid, token, lease=lease))
    console.answer(
        {"job": job_name, "dataid": dataid, "expires_in": left}, lambda: f"lease renewed for {in_words(left)}"
    )


@job.command("explain", short_help="Explain whether JOB can claim a chunk.")
@TYPED_CHUNK
@common
def explain(console: Console, job_name: str, dataid: str) -> None:
    """Explain whether JOB can claim a chunk: every condition with its answer."""
    from headgate.core.ledger.parts import is_left_out
    from headgate.core.ledger.sources import lacks_late

    verdict = console.ask(lambda gate: gate.ledger.explain(job_name, dataid))
    console.answer(_verdict(verdict), lambda: _explained(verdict))
    own = [each.row for each in verdict.conditions if each.row and each.row.job == job_name]
    if any(each.used_up for each in verdict.conditions) or any(map(lacks_late, own)):
        console.say(f"to run it again: {console.command('job', 'resubmit', job_name, dataid, '--reason', 'why')}")
    if any(row.status in (ERROR, HOLD) and row.attempt for row in own):
        console.say(f"its output: {console.command('job', 'logs', job_name, dataid)}")
    if any(row.status == HOLD for row in own):
        console.say(f"to release it: {console.command('job', 'unhold', job_name, dataid)}")
    if own and any(each.row and is_left_out(each.row) for each in verdict.conditions):
        console.say(f"to remove what it made: {console.command('job', 'forget', job_name, dataid, '--reason', 'why')}")


@job.command("plan", short_help="Show which chunks run next, and what blocks the others.")
@JOB_NAME
@limit_option("chunks in each part", 20)
@tabular
def plan(console: Console, job_name: str, limit: int) -> None:
    """Show which chunks run next, in order, and what blocks the others."""
    from headgate.core.ledger.sources import CLOSED_WITH
    from headgate.service.overview.counts import job_counts, job_in_words

    now: dict[str, int] | None = None
    with console.gate() as gate:
        found = gate.ledger.plan(job_name, limit)
        with suppress(NotAllowed):  # The token of a worker sees its job, and no counts.
            now = job_counts(gate.ledger, job_name)
    documents = [_verdict(each) for each in (*found.next, *found.blocked)]
    lines = [(each.dataid, "first" if each.first else "next", "-") for each in found.next]
    lines += [(each.dataid, "blocked", "; ".join(one.text for one in each.blockers)) for each in found.blocked]
    shown = table(("DATAID", "STATE", "WHY"), lines) if lines else "nothing to do"
    console.answer_list(documents, lambda: f"{shown}\n{job_name}: {job_in_words(now)}" if now else shown, counts=now)
    if any(CLOSED_WITH in one.text for each in found.blocked for one in each.blockers):
        console.say(f"when nothing else arrives: {console.command('job', 'close', job_name, 'DATAID')}")


@job.command("list")
@tabular
def list_jobs(console: Console) -> None:
    """List jobs with their inputs and outputs."""
    jobs = console.ask(lambda gate: gate.ledger.jobs())
    rows = [
        (each.name, ", ".join(each.inputs) or "-", ", ".join(each.makes) or "-", each.paused or "-") for each in jobs
    ]
    headings = ("JOB", "READS", "MAKES", "PAUSED")
    documents = [each.to_document() for each in jobs]
    console.answer_list(documents, lambda: table(headings, rows) if rows else "no jobs yet")


@job.command("show")
@JOB_NAME
@tabular
def show(console: Console, job_name: str) -> None:
    """Show the definition of JOB: what it reads and makes, and how often it tries."""
    found, _ = console.ask(lambda gate: gate.ledger.job(job_name))
    document = found.to_document()
    shown = {"job": found.name, **{f"reads {name}": str(found.map_of(name)) for name in found.inputs}}
    shown["makes"] = ", ".join(found.outputs)
    if found.fan_out:
        shown["fans out to"] = ", ".join(found.fan_out)
    shown["environment"] = ", ".join(f"{name}={value}" for name, value in found.environment.items())
    told = (*shown, "name", "inputs", "outputs", "fan_out", "maps")
    rest = {name: value for name, value in document.items() if name not in told}
    console.answer(
        document, lambda: pairs({name: "-" if value == "" else value for name, value in (shown | rest).items()})
    )


@job.command("connections")
@JOB_NAME
@tabular
def connections(console: Console, job_name: str) -> None:
    """Show the URIs of the datasets of JOB, without claiming a chunk.

    With the job's key, --json prints their secrets too.
    """
    found = console.ask(lambda gate: gate.ledger.connections(job_name))
    rows = [(kind[:-1], name, port.uri or "-") for kind, ports in found.items() for name, port in ports.items()]
    document = {kind: {name: plain_port(port) for name, port in ports.items()} for kind, ports in found.items()}
    console.answer(document, lambda: table(("KIND", "DATASET", "URI"), rows))


@job.command("force", short_help="Claim a chunk against the rules.")
@TYPED_CHUNK
@REASON
@STEAL
@LEASE
@common
def force(console: Console, /, job_name: str, dataid: str, **how: Any) -> None:
    """Claim a chunk against the rules, and print it as `job next` does."""
    claim = console.ask(lambda gate: gate.ledger.force(job_name, dataid, **how))
    _answer_claim(console, claim)


for act in (resubmit, hold, unhold, forget):
    job.add_command(act)


@job.command("set-status")
@click.argument("dataset", type=DATASET)
@click.argument("dataid", type=ONE)
@EXACT
@JOB_NAME
@click.argument("kind", type=KIND, metavar="KIND")
@click.argument("status", type=STATUS, metavar="STATUS")
@REASON
@common
def set_status(console: Console, /, dataset: str, dataid: str, job_name: str, **what: Any) -> None:
    """Set the status of one record by hand. JOB is `external` for data that was published.

    KIND is INPUT or OUTPUT. A STATUS that Headgate does not know blocks the chunk like HOLD.
    """
    change = console.ask(lambda gate: gate.ledger.set_status(dataset, dataid, job_name, **what))
    answer_changes(console, [change])
    if change.after not in STATUS_WORDS.values():
        near = nearest(change.after, STATUS_WORDS)
        meant = f"; did you mean {near}?" if near else ""
        console.say(f"headgate: note: Headgate does not know the status {change.after}: it blocks like HOLD{meant}")


@job.command("close", short_help="Declare data ids of JOB complete.")
@JOB_NAME
@click.argument("dataids", metavar="DATAID...", nargs=-1, required=True, type=DataIdRange())
@EXACT
@ANY_REASON
@click.option("--reopen", is_flag=True, help="Reopen it: more may arrive.")
@common
def close(console: Console, job_name: str, dataids: Sequence[Members], reason: str, *, reopen: bool) -> None:
    """Declare data ids of JOB complete, where its mapped inputs have no calendar.

    JOB then claims them once everything that has arrived is READY. Later arrivals are noted, or cause a redo, as the
    mapping of the input says. A DATAID can be a range of months, days or numbers. After an interruption run the
    command again: nothing is closed twice.
    """
    chosen = list(Selection(dataids))
    with console.gate() as gate:
        changed = [gate.ledger.close(job_name, each, reason=reason, reopen=reopen) for each in chosen]
    documents = [
        {"job": job_name, "dataid": dataid, "closed": not reopen, "changed": new}
        for dataid, new in zip(chosen, changed, strict=True)
    ]
    console.answer_list(documents, lambda: _closed(job_name, chosen, changed, "reopened" if reopen else "closed"))


def _closed(job_name: str, dataids: Sequence[str], changed: Sequence[bool], done: str) -> str:
    if len(dataids) == 1:
        return f"{done}{'' if changed[0] else ' already'}  {job_name} {dataids[0]}"
    before = f" ({len(dataids) - sum(changed):,} already)" if not all(changed) else ""
    return f"{done}  {plural(len(dataids), 'data id')} of {job_name}{before}"


@job.command("pause")
@JOB_NAME
@REASON
@common
def pause(console: Console, job_name: str, reason: str) -> None:
    """Pause JOB: it gets no new chunks; running ones finish."""
    found = console.ask(lambda gate: gate.ledger.pause(job_name, reason=reason))
    console.answer(found.to_document(), lambda: f"paused  {job_name}: {reason}")


@job.command("unpause")
@JOB_NAME
@common
def unpause(console: Console, job_name: str) -> None:
    """Let a paused JOB continue."""
    found = console.ask(lambda gate: gate.ledger.unpause(job_name))
    console.answer(found.to_document(), lambda: f"resumed  {job_name}")


@job.command("reap")
@common
def reap(console: Console) -> None:
    """Turn claims of crashed workers into errors. The daemon `reaper` does this regularly."""
    count = console.ask(lambda gate: gate.ledger.reap())
    console.answer({"reaped": count}, lambda: f"reaped  {plural(count, 'chunk')}")


def plain_port(port: Any) -> dict[str, Any]:
    """A dataset's connection data as JSON."""
    sealed = {"sealed": dict(port.sealed)} if port.sealed else {}
    return {"uri": port.uri, "settings": dict(port.settings), "secrets": dict(port.secrets), **sealed}


def _answer_claim(console: Console, claim: Claim) -> None:
    console.answer(
        claim.to_document(),
        lambda: pairs(
            {
                "claimed": f"{claim.job} {claim.dataid}", "token": claim.token, "attempt": claim.attempt,
                **{f"input {name}": port.uri for name, port in claim.inputs.items()},
                **{f"output {name}": port.uri for name, port in claim.outputs.items()},
            }
        ),
    )  # fmt: skip
    told = console.command("job", "success", claim.job, claim.dataid, "--token", str(claim.token))
    console.say(f"report it with: {told}")


def _answer_report(console: Console, job_name: str, dataid: str, reported: str, word: str) -> None:
    document = {"job": job_name, "dataid": dataid, "reported": reported}
    console.answer(document, lambda: f"{word}  {job_name} {dataid}")


def _verdict(verdict: Verdict) -> dict[str, Any]:
    conditions = [
        {
            "name": each.name, "ok": each.ok, "failed": each.failed, "answer": each.answer, "text": each.text,
            "row": plain(each.row),
        }
        for each in verdict.conditions
    ]  # fmt: skip
    return {
        "job": verdict.job, "dataid": verdict.dataid, "granted": verdict.granted, "first": verdict.first,
        "answer": verdict.answer, "conditions": conditions,
    }  # fmt: skip


def _explained(verdict: Verdict) -> str:
    """The verdict, then the conditions. NO: it blocks; err: it failed, and may be retried; yes: it is met."""
    marks = [("NO" if not each.ok else "err" if each.failed else "yes", each.text) for each in verdict.conditions]
    return "\n".join([verdict.sentence().splitlines()[0], *(f"  {mark:<3}  {text}" for mark, text in marks)])
