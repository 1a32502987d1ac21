"""Commands of operators that change the queue: one item or many, with a preview and a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.ingest import items
from headgate.cli.ingest.items import ItemId, ItemIdOrArk, is_ark
from headgate.cli.ingest.objects import delete_objects
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import NOTHING_TO_DO, TRY_LATER
from headgate.cli.terminal.options import ANY_REASON, DRY_RUN, REASON, YES, common, together
from headgate.cli.terminal.output import table
from headgate.cli.terminal.values import PROFILE
from headgate.core.errors import Refused, UnknownName
from headgate.core.queue.model import ALL, DELETE_EVENT, FAILED, HELD, RELEASE_EVENT, RESUME_EVENT, Item
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.queue.frozen import Frozen
    from headgate.core.queue.model import IngestJob
    from headgate.gate import Gate
    from headgate.service.queue.use_cases import Queue

T = TypeVar("T")
#: Advice about a profile or manifest that is out of date.
REFRESH = "resume continues with these; resume --refresh uses the current profile, and fetches the manifest again"
#: What the user should know before agreeing.
WARNINGS = {DELETE_EVENT: "\nDeleted items cannot be restored, and will not be in any later report."}
#: Maximum number of lines in a preview.
PREVIEW = 20


#: The options of commands that may change many items.
BULK = together(
    click.option("--reason", default="", help="Reason, kept in the history; required to change several at once."),
    DRY_RUN,
    YES,
)


@click.command("hold", short_help="Put a collection on hold.")
@click.argument("profile", type=PROFILE)
@click.option("--reason", required=True, help="Reason, shown to all affected users.")
@common
def hold(console: Console, profile: str, reason: str) -> None:
    """Put a collection on hold: its pending batches and jobs become held."""
    with console.gate() as gate:
        found = gate.queue.set_hold(profile, reason=reason, by=console.client())
        unused = profile != ALL and not gate.queue.batches(profile=profile, limit=1)
    console.answer(plain(found), lambda: f"held  {found.profile}: {found.reason}")
    if unused:
        console.say(f"no batch in the queue has the profile {profile} now; the hold applies to those submitted later")


@click.command("unhold")
@click.argument("profile", type=PROFILE)
@click.option("--release-all", is_flag=True, help="Release its held batches and jobs, too.")
@BULK
@common
def unhold(console: Console, /, profile: str, *, release_all: bool, dry_run: bool, **how: Any) -> int:
    """End the hold of a collection. Held batches and jobs stay held until they are released."""
    with console.gate() as gate:

        def clear() -> None:
            cleared = gate.queue.clear_hold(profile, by=console.client())
            console.say(f"the hold of {profile} is cleared" if cleared else f"{profile} was not held")

        found = _held(gate.queue, profile)
        if release_all and found:
            how["reason"] = how["reason"] or f"the hold of {profile} was cleared"
            return act_on(console, RELEASE_EVENT, found, gate.queue.release, first=clear, dry_run=dry_run, **how)
        if not dry_run:
            clear()
    if found:
        again = console.command("ingest", "release", "--profile", profile, "--reason", "why")
        are, them = ("is", "it") if len(found) == 1 else ("are", "them")
        console.say(f"{plural(len(found), 'item')} {are} still held; to release {them}: {again}")
    console.answer({"profile": profile, "held": [each.id for each in found]}, lambda: f"not held  {profile}")
    return 0


@click.command("release")
@click.argument("ids", metavar="[ID]...", nargs=-1, type=ItemId("jid", "bid"))
@click.option("--profile", type=PROFILE, help="All batches and jobs that were stopped by the hold of this profile.")
@BULK
@common
def release(console: Console, /, ids: Sequence[str], profile: str | None, **how: Any) -> int:
    """Release held batches and jobs. Refused while their collection is on hold.

    They become pending. A batch or job that is held because its workers crashed continues with the step in which they
    crashed, and crashes are counted from zero; name its ID, since --profile does not release it.
    """
    _one_of(ids, profile, "an ID, or --profile P for all held items of the profile")
    with console.gate() as gate:
        found = known(gate, _held(gate.queue, profile), profile) if profile else _named(console, gate.queue, ids)
        return act_on(console, RELEASE_EVENT, found, gate.queue.release, named=not profile, **how)


@click.command("resume", short_help="Resume failed jobs after their last successful step.")
@click.argument("ids", metavar="[JID]...", nargs=-1, type=ItemId("jid"))
@click.option("--batch", type=ItemId("bid"), metavar="BID", help="All failed jobs of this batch.")
@click.option("--profile", type=PROFILE, help="All failed jobs of this profile.")
@click.option("--all-failed", is_flag=True, help="All failed jobs.")
@click.option("--refresh", is_flag=True, help="Use the current profile, and fetch the manifest and files again.")
@BULK
@common
def resume(
    console: Console, /, ids: Sequence[str], batch: str, profile: str, *, all_failed: bool, refresh: bool, **how: Any
) -> int:
    """Resume failed jobs with the step after the last successful one.

    A job continues with the profile that its batch kept when its jobs were created, and with the object manifest that
    it fetched first. --refresh replaces both: the current profile is then used by all unfinished jobs of the batch,
    and the manifest and files are fetched again. Rows of a batch manifest are never read again; submit it again.
    """
    many = batch or profile or all_failed
    _one_of(ids, many, "a JID, --batch BID, --profile P, or --all-failed")
    with console.gate() as gate:
        from headgate.ingest.objects.deposits import resume_refreshed

        act = partial(resume_refreshed, gate.queue, gate.deposits) if refresh else gate.queue.resume
        failed = partial(gate.queue.jobs, FAILED, batch=batch, profile=profile)
        found = known(gate, failed(), profile) if many else _named(console, gate.queue, ids)
        if not refresh:
            _say_frozen(console, gate, found)
        return act_on(console, RESUME_EVENT, found, act, named=not many, **how)


@click.command("delete")
@click.argument("ids", metavar="[ID|ARK]...", nargs=-1, type=ItemIdOrArk("jid", "bid"))
@click.option("--failed", is_flag=True, help="All failed jobs of --batch or --profile.")
@click.option("--batch", type=ItemId("bid"), metavar="BID", help="With --failed: of this batch.")
@click.option("--profile", type=PROFILE, help="With --failed: of this profile.")
@REASON
@DRY_RUN
@YES
@common
def delete(console: Console, /, ids: Sequence[str], batch: str, profile: str, *, failed: bool, **how: Any) -> int:
    """Delete failed or held batches and jobs, or stored objects. Only their history is kept.

    A job that is deleted before its batch is reported is missing from the report. Deleting a batch deletes its jobs,
    and its depositor is not notified.

    Deleting an object (by its ARK) removes all its versions from the storage, the inventory and the ledger; what
    pipelines made from it stays. Refused while the object or one of its chunks is in use. Put its collection on hold
    first, since a job that is under way may store it again.

    \b
    Examples:
      headgate ingest delete jid7 --reason "sent twice"
      headgate ingest delete ark:/13030/m5abc --reason "withdrawn by its owner"
    """
    _one_of(ids, failed, "an ID or ARK, or --failed with --batch BID or --profile P")
    if any(is_ark(each) for each in ids):
        return delete_objects(console, ids, **how)
    if failed and not (batch or profile):
        raise click.UsageError("--failed needs --batch BID or --profile P")
    with console.gate() as gate:
        matching = partial(gate.queue.jobs, FAILED, batch=batch, profile=profile)
        found = known(gate, matching(), profile) if failed else _named(console, gate.queue, ids)
        return act_on(console, DELETE_EVENT, found, gate.queue.delete, named=not failed, **how)


@click.command("update-report", short_help="Report a failed batch again.")
@click.argument("batch", metavar="BID", type=ItemId("bid"))
@ANY_REASON
@common
def update_report(console: Console, batch: str, reason: str) -> None:
    """Report a failed batch again: what changed since the last report."""
    with console.gate() as gate, items.naming_the_nearest(console, gate.queue, batch):
        found = gate.queue.update_report(batch, reason=reason, by=console.client())
    console.answer(items.document(found), lambda: f"{found.id}  {found.state}")


@click.command("priority")
@click.argument("job", metavar="JID", type=ItemId("jid"))
@click.argument("priority", metavar="N", type=int)
@ANY_REASON
@common
def priority(console: Console, job: str, priority: int, reason: str) -> None:
    """Set the priority of an ingest job: 0 is first, 99 is last."""
    with console.gate() as gate, items.naming_the_nearest(console, gate.queue, job):
        found = gate.queue.set_priority(job, priority, reason=reason, by=console.client())
    console.answer(items.document(found), lambda: f"{found.id}  {found.state}, priority {found.priority}")


@click.command("pause", short_help="Pause the whole queue.")
@click.option("--reason", required=True, help="Reason, shown to all users.")
@common
def pause(console: Console, reason: str) -> None:
    """Pause the whole queue: no new work starts; running work finishes."""
    found = console.ask(lambda gate: gate.queue.set_hold(ALL, reason=reason, by=console.client()))
    console.answer(plain(found), lambda: f"paused  {found.reason}")


@click.command("unpause")
@common
def unpause(console: Console) -> None:
    """Let a paused queue continue."""
    cleared = console.ask(lambda gate: gate.queue.clear_hold(ALL, by=console.client()))
    console.answer({"cleared": cleared}, lambda: "goes on" if cleared else "it was not paused")


COMMANDS = (hold, unhold, release, pause, unpause, resume, priority, delete, update_report)


def _say_frozen(console: Console, gate: Gate, jobs: Sequence[Item]) -> None:
    """Say what the first job keeps from its start, and that --refresh replaces it."""
    if not jobs or console.quiet or console.as_json:
        return
    frozen = frozen_if_failed(gate, gate.queue.job(jobs[0].id))
    for sentence in [*frozen.sentences, REFRESH] if frozen else ():
        console.say(sentence)


def frozen_if_failed(gate: Gate, job: IngestJob) -> Frozen | None:
    """Return what a failed job that can be resumed keeps from its start."""
    return gate.deposits.frozen_of(job) if job.state == FAILED and job.last_successful is not None else None


def act_on(  # noqa: PLR0913 - each is an option of the command
    console: Console,
    verb: str,
    found: Sequence[Item],
    act: Callable[..., Item],
    *,
    reason: str,
    dry_run: bool,
    yes: bool,
    named: bool = False,
    first: Callable[[], None] = lambda: None,
) -> int:
    """Show the items, ask for confirmation, and act on each. Returns the exit code.

    `named`: the user named each item, so no reason is needed, only deleting is confirmed, and a single item is answered
    directly, with its own error. `first`: called once after the confirmation.
    """
    if not found:
        console.answer({"count": 0, "items": []}, lambda: f"nothing to {verb}")
        return NOTHING_TO_DO
    if dry_run:
        shown = {"dry_run": True, "count": len(found), "items": [items.document(each) for each in found]}
        console.answer(shown, lambda: _preview(verb, found))
        return 0
    if not named and not reason.strip():
        raise click.UsageError(f"{len(found)} would be changed: give a reason with --reason")
    if not yes and (not named or (verb == DELETE_EVENT and console.can_ask)):
        otherwise = f"{len(found)} would be changed: add --yes to do it, or --dry-run to see them"
        if not console.agrees(f"{verb} {len(found)}?", _preview(verb, found) + WARNINGS.get(verb, ""), otherwise):
            return 0
    first()
    if named and len(found) == 1:
        done = act(found[0].id, reason=reason, by=console.client())
        console.answer(items.document(done), lambda: f"{done.id}  {'deleted' if verb == DELETE_EVENT else done.state}")
        return 0
    return _act_on_many(console, verb, found, act, reason)


def _act_on_many(console: Console, verb: str, found: Sequence[Item], act: Callable[..., Item], reason: str) -> int:
    done, refused = [], []
    for each in found:
        try:
            done.append(act(each.id, reason=reason, by=console.client()))
        except (Refused, UnknownName) as error:
            refused.append({"id": each.id, "why": str(error)})
    document = {"count": len(done), "items": [items.document(each) for each in done], "refused": refused}
    console.answer(document, lambda: f"{verb}: {len(done)} done" + (f", {len(refused)} refused" if refused else ""))
    if refused:
        console.say(table(("ID", "REFUSED"), [(each["id"], each["why"]) for each in refused[:PREVIEW]]))
    return TRY_LATER if refused else 0


def _preview(verb: str, found: Sequence[Item]) -> str:
    more = f"\n… and {len(found) - PREVIEW} more" if len(found) > PREVIEW else ""
    return f"{items.item_table(found[:PREVIEW])}{more}\n{verb} would change {len(found)}"


def _named(console: Console, queue: Queue, ids: Sequence[str]) -> list[Item]:
    return [items.find(console, queue, each) for each in ids]


def known(gate: Gate, found: Sequence[T], profile: str | None) -> Sequence[T]:
    """Return the items that were found. Raises UnknownName if nothing was found because the profile is mistyped."""
    if profile and not found:
        gate.queue.check_profile(profile)
    return found


def _held(queue: Queue, profile: str) -> list[Item]:
    """Return items stopped by the hold of a collection, except those held for crashes, which need a decision each."""
    held: list[Item] = [*queue.batches(HELD, profile=profile), *queue.jobs(HELD, profile=profile)]
    return [item for item in held if not item.former]


def _one_of(ids: Sequence[str], many: object, what: str) -> None:
    if bool(ids) == bool(many):
        raise click.UsageError(f"name {what}" + (", not both" if ids else ""))
