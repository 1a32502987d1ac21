"""Commands for jobs: claim and report, explain and plan, and what support does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.claiming import claim_chunk, nothing_to_do
from headgate.cli.dataids import EXACT, ONE, Selection, act_on_each, many_dataids
from headgate.cli.failures import NOTHING_TO_DO
from headgate.cli.job_run import run
from headgate.cli.job_wait import wait
from headgate.cli.output import pairs, table
from headgate.cli.progress import working
from headgate.cli.session import DURATION, InOrder, Session, common, tabular
from headgate.cli.values import DATASET, JOB, KIND, STATUS
from headgate.core.durations import in_words
from headgate.core.ledger import HOLD, STATUS_WORDS
from headgate.core.plurals import plural
from headgate.core.wire import plain
from headgate.core.words import nearest

if TYPE_CHECKING:
    from headgate.core.claims import Condition, Verdict
    from headgate.core.ledger import Change, Claim

F = TypeVar("F", bound=Callable[..., Any])


def chunk(function: F) -> F:
    """The two words that name a job's chunk. The data id is taken literally: it comes from a claim."""
    return click.argument("job_name", metavar="JOB", type=JOB)(click.argument("dataid", metavar="DATAID")(function))


def any_chunk(function: F) -> F:
    """The same, typed by a person: a range is refused."""
    dataid = click.argument("dataid", metavar="DATAID", type=ONE)
    return click.argument("job_name", metavar="JOB", type=JOB)(dataid(EXACT(function)))


def chunks(function: F) -> F:
    """A job, and data ids or ranges of them."""
    return click.argument("job_name", metavar="JOB", type=JOB)(many_dataids(function))


def why(function: F) -> F:
    """The reason that support gives."""
    return click.option("--reason", required=True, help="Reason, kept in the history.")(function)


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


@job.command("next")
@click.argument("job_name", metavar="JOB", type=JOB)
@click.option(
    "--dataid", type=ONE, help="Chunk to claim; refused with the reason if it is not available (default: the next one)."
)
@EXACT
@click.option("--worker", help="Name of the worker (default: host and process id).")
@click.option(
    "--lease", type=DURATION, default=60, help="Time until the claim expires without a heartbeat (default: 60s)."
)
@common
@click.pass_obj
def next_chunk(session: Session, job_name: str, dataid: str | None, worker: str | None, lease: float) -> int:
    """Claim the next available chunk of JOB, and print it. Exit code 3 if there is nothing to do.

    The claim outlives this command: report with `job success`, `job fail` or `job interrupt` before the lease expires,
    or renew it with `job heartbeat`.

    With the job's key in HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE the JSON contains the secrets of its datasets. With
    a wrong key nothing is claimed (exit code 77). Without a key the secrets are masked, and `keys open` decrypts them.
    """
    with session.gate() as gate:
        claim = claim_chunk(gate.ledger, job_name, dataid, worker=worker, lease=lease)
        if claim is None:
            session.say(nothing_to_do(session, gate.ledger, job_name))
            return NOTHING_TO_DO
    _answer_claim(session, claim)
    return 0


@job.command("success")
@chunk
@click.option("--token", type=int, required=True, metavar="N", help="Token of the claim.")
@common
@click.pass_obj
def success(session: Session, job_name: str, dataid: str, token: int) -> None:
    """Report that a claimed chunk succeeded."""
    with session.gate() as gate:
        gate.ledger.success(job_name, dataid, token)
    session.answer({"job": job_name, "dataid": dataid, "reported": "success"}, lambda: f"done  {job_name} {dataid}")


@job.command("fail")
@chunk
@click.option("--token", type=int, required=True, metavar="N", help="Token of the claim.")
@click.option("--message", default="", help="Reason of the failure.")
@common
@click.pass_obj
def fail(session: Session, job_name: str, dataid: str, token: int, message: str) -> None:
    """Report that a claimed chunk failed."""
    with session.gate() as gate:
        gate.ledger.fail(job_name, message, dataid, token)
    session.answer({"job": job_name, "dataid": dataid, "reported": "fail"}, lambda: f"failed  {job_name} {dataid}")


@job.command("interrupt")
@chunk
@click.option("--token", type=int, required=True, metavar="N", help="Token of the claim.")
@click.option("--message", default="", help="Reason, for example the signal.")
@common
@click.pass_obj
def interrupt(session: Session, job_name: str, dataid: str, token: int, message: str) -> None:
    """Report that the worker of a claimed chunk was asked to stop. No attempt is used up."""
    with session.gate() as gate:
        gate.ledger.interrupt(job_name, message, dataid, token)
    answered = {"job": job_name, "dataid": dataid, "reported": "interrupt"}
    session.answer(answered, lambda: f"interrupted  {job_name} {dataid}")


@job.command("heartbeat")
@chunk
@click.option("--token", type=int, required=True, metavar="N", help="Token of the claim.")
@click.option("--lease", type=DURATION, default=60, help="New lease length (default: 60s).")
@common
@click.pass_obj
def heartbeat(session: Session, job_name: str, dataid: str, token: int, lease: float) -> None:
    """Renew the lease of a claimed chunk."""
    with session.gate() as gate:
        left = gate.ledger.heartbeat(job_name, dataid, token, lease=lease)
    session.answer(
        {"job": job_name, "dataid": dataid, "expires_in": left}, lambda: f"lease renewed for {in_words(left)}"
    )


@job.command("explain", short_help="Explain whether JOB can claim a chunk.")
@any_chunk
@common
@click.pass_obj
def explain(session: Session, job_name: str, dataid: str) -> None:
    """Explain whether JOB can claim a chunk: every condition with its answer."""
    with session.gate() as gate:
        verdict = gate.ledger.explain(job_name, dataid)
    session.answer(_verdict(verdict), lambda: _explained(verdict))
    if any(each.used_up for each in verdict.conditions):
        session.say(f"to run it again: {session.command('job', 'resubmit', job_name, dataid, '--reason', 'why')}")
    own = [each.row for each in verdict.conditions if each.row and each.row.job == job_name]
    if any(row.status == HOLD for row in own):
        session.say(f"to release it: {session.command('job', 'unhold', job_name, dataid)}")


@job.command("plan", short_help="Show which chunks run next, and what blocks the others.")
@click.argument("job_name", metavar="JOB", type=JOB)
@click.option(
    "--limit", type=int, metavar="N", default=20, show_default=True, help="Largest number of chunks in each part."
)
@tabular
@click.pass_obj
def plan(session: Session, job_name: str, limit: int) -> None:
    """Show which chunks run next, in order, and what blocks the others."""
    from headgate.service.counts import job_counts, job_in_words

    with session.gate() as gate:
        found, now = gate.ledger.plan(job_name, limit), job_counts(gate.ledger, job_name)
    documents = [_verdict(each) for each in (*found.next, *found.blocked)]
    lines = [(each.dataid, "first" if each.first else "next", "-") for each in found.next]
    lines += [(each.dataid, "blocked", "; ".join(one.text for one in each.blockers)) for each in found.blocked]
    shown = table(("DATAID", "STATE", "WHY"), lines) if lines else "nothing to do"
    session.answer_list(documents, lambda: f"{shown}\n{job_name}: {job_in_words(now)}", counts=now)


@job.command("list")
@tabular
@click.pass_obj
def list_jobs(session: Session) -> None:
    """List jobs with their inputs and outputs."""
    with session.gate() as gate:
        jobs = gate.ledger.jobs()
    rows = [
        (each.name, ", ".join(each.inputs) or "-", ", ".join(each.outputs) or "-", each.paused or "-") for each in jobs
    ]
    headings = ("JOB", "READS", "MAKES", "PAUSED")
    documents = [each.to_document() for each in jobs]
    session.answer_list(documents, lambda: table(headings, rows) if rows else "no jobs yet")


@job.command("connections")
@click.argument("job_name", metavar="JOB", type=JOB)
@tabular
@click.pass_obj
def connections(session: Session, job_name: str) -> None:
    """Show the URIs of the datasets of JOB, without claiming a chunk.

    With the job's key, --json prints their secrets too.
    """
    with session.gate() as gate:
        found = gate.ledger.connections(job_name)
    rows = [(kind[:-1], name, port.uri or "-") for kind, ports in found.items() for name, port in ports.items()]
    document = {kind: {name: plain_port(port) for name, port in ports.items()} for kind, ports in found.items()}
    session.answer(document, lambda: table(("KIND", "DATASET", "URI"), rows))


@job.command("force", short_help="Claim a chunk against the rules.")
@any_chunk
@why
@click.option("--steal", is_flag=True, help="Take the chunk from a worker that is still alive.")
@click.option(
    "--lease", type=DURATION, default=60, help="Time until the claim expires without a heartbeat (default: 60s)."
)
@common
@click.pass_obj
def force(session: Session, /, job_name: str, dataid: str, **how: Any) -> None:
    """Claim a chunk against the rules, and print it as `job next` does."""
    with session.gate() as gate:
        claim = gate.ledger.force(job_name, dataid, **how)
    _answer_claim(session, claim)


@job.command("resubmit")
@chunks
@why
@click.option("--downstream", is_flag=True, help="Include all chunks that were made from it.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--steal", is_flag=True, help="Take the chunk from a worker that is still alive.")
@common
@click.pass_obj
def resubmit(session: Session, /, job_name: str, dataids: Selection, **how: Any) -> None:
    """Run chunks again, before all others. Their failures are counted from zero.

    A DATAID can be a range of days, months or numbers.
    """
    with session.gate() as gate, working(session, "finding all chunks that were made from it"):
        changes = gate.ledger.resubmit(job_name, list(dataids), **how)
    _answer_changes(session, changes)


@job.command("hold")
@chunks
@why
@common
@click.pass_obj
def hold(session: Session, job_name: str, dataids: Selection, reason: str) -> int:
    """Hold chunks: no job can read or make them until `job unhold`.

    A DATAID can be a range of days, months or numbers. A chunk that does not exist yet can be held too.
    """
    with session.gate() as gate:
        changes, code = act_on_each(session, dataids, lambda dataid: gate.ledger.hold(job_name, dataid, reason=reason))
    _answer_changes(session, changes)
    return code


@job.command("unhold")
@chunks
@click.option("--reason", default="", help="Reason, kept in the history.")
@common
@click.pass_obj
def unhold(session: Session, job_name: str, dataids: Selection, reason: str) -> int:
    """Release held chunks: their former status comes back."""
    with session.gate() as gate:
        changes, code = act_on_each(
            session, dataids, lambda dataid: gate.ledger.unhold(job_name, dataid, reason=reason)
        )
    _answer_changes(session, changes)
    return code


@job.command("forget")
@chunks
@why
@click.option("--steal", is_flag=True, help="Take the chunk from a worker that is still alive.")
@common
@click.pass_obj
def forget(session: Session, /, job_name: str, dataids: Selection, **how: Any) -> int:
    """Remove the records of JOB for chunks, as if they had never run. Inputs are not touched."""
    with session.gate() as gate:
        changes, code = act_on_each(session, dataids, lambda dataid: gate.ledger.forget(job_name, dataid, **how))
    _answer_changes(session, changes)
    return code


@job.command("set-status")
@click.argument("dataset", type=DATASET)
@click.argument("dataid", type=ONE)
@EXACT
@click.argument("job_name", metavar="JOB", type=JOB)
@click.argument("kind", type=KIND, metavar="KIND")
@click.argument("status", type=STATUS, metavar="STATUS")
@why
@common
@click.pass_obj
def set_status(session: Session, /, dataset: str, dataid: str, job_name: str, **what: Any) -> None:
    """Set the status of one record by hand. JOB is `external` for data that was published.

    KIND is INPUT or OUTPUT. A STATUS that Headgate does not know blocks the chunk like HOLD.
    """
    with session.gate() as gate:
        change = gate.ledger.set_status(dataset, dataid, job_name, **what)
    _answer_changes(session, [change])
    if change.after not in STATUS_WORDS.values():
        near = nearest(change.after, STATUS_WORDS)
        meant = f"; did you mean {near}?" if near else ""
        session.say(f"headgate: note: Headgate does not know the status {change.after}: it blocks like HOLD{meant}")


@job.command("pause")
@click.argument("job_name", metavar="JOB", type=JOB)
@why
@common
@click.pass_obj
def pause(session: Session, job_name: str, reason: str) -> None:
    """Pause JOB: it gets no new chunks; running ones finish."""
    with session.gate() as gate:
        found = gate.ledger.pause(job_name, reason=reason)
    session.answer(found.to_document(), lambda: f"paused  {job_name}: {reason}")


@job.command("unpause")
@click.argument("job_name", metavar="JOB", type=JOB)
@common
@click.pass_obj
def unpause(session: Session, job_name: str) -> None:
    """Let a paused JOB continue."""
    with session.gate() as gate:
        found = gate.ledger.unpause(job_name)
    session.answer(found.to_document(), lambda: f"resumed  {job_name}")


@job.command("reap")
@common
@click.pass_obj
def reap(session: Session) -> None:
    """Turn claims of crashed workers into errors. The daemon `reaper` does this regularly."""
    with session.gate() as gate:
        count = gate.ledger.reap()
    session.answer({"reaped": count}, lambda: f"reaped  {plural(count, 'chunk')}")


def plain_port(port: Any) -> dict[str, Any]:
    """A dataset's connection data for programs."""
    sealed = {"sealed": dict(port.sealed)} if port.sealed else {}
    return {"uri": port.uri, "settings": dict(port.settings), "secrets": dict(port.secrets), **sealed}


def _answer_claim(session: Session, claim: Claim) -> None:
    session.answer(
        claim.to_document(),
        lambda: pairs(
            {
                "claimed": f"{claim.job} {claim.dataid}", "token": claim.token, "attempt": claim.attempt,
                **{f"input {name}": port.uri for name, port in claim.inputs.items()},
                **{f"output {name}": port.uri for name, port in claim.outputs.items()},
            }
        ),
    )  # fmt: skip
    told = session.command("job", "success", claim.job, claim.dataid, "--token", str(claim.token))
    session.say(f"report it with: {told}")


def _answer_changes(session: Session, changes: Sequence[Change]) -> None:
    rows = [(each.job, each.dataset, each.dataid, each.kind, each.before, each.after) for each in changes]
    headings = ("JOB", "DATASET", "DATAID", "KIND", "BEFORE", "AFTER")
    session.answer_list(plain(changes), lambda: table(headings, rows) if rows else "nothing changed")


def _verdict(verdict: Verdict) -> dict[str, Any]:
    conditions = [
        {
            "name": each.name,
            "ok": each.ok,
            "failed": each.failed,
            "answer": each.answer,
            "text": each.text,
            "row": plain(each.row),
        }
        for each in verdict.conditions
    ]
    return {
        "job": verdict.job, "dataid": verdict.dataid, "granted": verdict.granted, "first": verdict.first,
        "answer": verdict.answer, "conditions": conditions,
    }  # fmt: skip


def _mark(condition: Condition) -> str:
    """NO: it blocks; err: it failed, and may be retried; yes: it is fine."""
    return "NO" if not condition.ok else "err" if condition.failed else "yes"


def _explained(verdict: Verdict) -> str:
    head = verdict.sentence().splitlines()[0]
    lines = [f"  {_mark(each):<3}  {each.text}" for each in verdict.conditions]
    return "\n".join([head, *lines])
