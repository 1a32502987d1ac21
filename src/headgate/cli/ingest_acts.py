"""What operators do to the queue: one item or many, with a preview and a reason."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli import items
from headgate.cli.failures import NOTHING_TO_DO, TRY_LATER
from headgate.cli.ingest_objects import delete_objects
from headgate.cli.items import ItemId, ItemIdOrArk, is_ark
from headgate.cli.output import say, table
from headgate.cli.session import Session, common
from headgate.cli.values import PROFILE
from headgate.core.errors import Refused, UnknownName
from headgate.core.plurals import plural
from headgate.core.queue import ALL, Item, is_batch
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.core.frozen import Frozen
    from headgate.core.queue import IngestJob
    from headgate.gate import Gate
    from headgate.service.queue import Queue

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
#: What to do about a profile or manifest that is out of date.
REFRESH = "resume continues with these; resume --refresh uses the current profile, and fetches the manifest again"
#: No more lines than this are shown of what would be changed.
PREVIEW = 20


def bulk(function: F) -> F:
    """The options of commands that may act on many."""
    dry = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
    yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
    return dry(yes(function))


def reason(function: F) -> F:
    """Why; it is kept in the history."""
    return click.option(
        "--reason", default="", help="Reason, kept in the history; required to change several at once."
    )(function)


@click.command("hold", short_help="Put a collection on hold.")
@click.argument("profile", type=PROFILE)
@click.option("--reason", required=True, help="Reason, shown to everybody who is affected.")
@common
@click.pass_obj
def hold(session: Session, profile: str, reason: str) -> None:
    """Put a collection on hold: its pending batches and jobs become held."""
    with session.gate() as gate:
        found = gate.queue.set_hold(profile, reason=reason, by=session.client())
        unused = profile != ALL and not gate.queue.batches(profile=profile, limit=1)
    session.answer(plain(found), lambda: f"held  {found.profile}: {found.reason}")
    if unused:
        session.say(f"no batch in the queue has the profile {profile} now; the hold applies to those submitted later")


@click.command("unhold")
@click.argument("profile", type=PROFILE)
@click.option("--release-all", is_flag=True, help="Release its held batches and jobs, too.")
@reason
@bulk
@common
@click.pass_obj
def unhold(session: Session, /, profile: str, *, release_all: bool, dry_run: bool, **how: Any) -> int:
    """End the hold of a collection. Held batches and jobs stay held until they are released."""
    with session.gate() as gate:

        def clear() -> None:
            cleared = gate.queue.clear_hold(profile, by=session.client())
            session.say(f"the hold of {profile} is cleared" if cleared else f"{profile} was not held")

        found = _held(gate.queue, profile)
        if release_all and found:
            how["reason"] = how["reason"] or f"the hold of {profile} was cleared"
            return act_on_all(session, "release", found, gate.queue.release, first=clear, dry_run=dry_run, **how)
        if not dry_run:
            clear()
    if found:
        again = session.command("ingest", "release", "--profile", profile, "--reason", "why")
        are, them = ("is", "it") if len(found) == 1 else ("are", "them")
        session.say(f"{plural(len(found), 'item')} {are} still held; to release {them}: {again}")
    session.answer({"profile": profile, "held": [each.id for each in found]}, lambda: f"not held  {profile}")
    return 0


@click.command("release")
@click.argument("ids", metavar="[ID]...", nargs=-1, type=ItemId("jid", "bid"))
@click.option("--profile", type=PROFILE, help="All batches and jobs that the hold of this profile has stopped.")
@reason
@bulk
@common
@click.pass_obj
def release(session: Session, /, ids: Sequence[str], profile: str | None, **how: Any) -> int:
    """Release held batches and jobs. Refused while their collection is on hold.

    They become pending. A batch or job that is held because its workers crashed continues with the step in which they
    crashed, and crashes are counted from zero; name its ID, since --profile does not release it.
    """
    _one_of(ids, profile, "an ID, or --profile P for all held items of the profile")
    with session.gate() as gate:
        if not profile:
            return act_on_each(session, gate.queue, "release", ids, gate.queue.release, **how)
        found = known(gate, _held(gate.queue, profile), profile)
        return act_on_all(session, "release", found, gate.queue.release, **how)


@click.command("resume", short_help="Resume failed jobs after their last successful step.")
@click.argument("ids", metavar="[JID]...", nargs=-1, type=ItemId("jid"))
@click.option("--batch", type=ItemId("bid"), metavar="BID", help="All failed jobs of this batch.")
@click.option("--profile", type=PROFILE, help="All failed jobs of this profile.")
@click.option("--all-failed", is_flag=True, help="All failed jobs.")
@click.option("--refresh", is_flag=True, help="Use the current profile, and fetch the manifest and files again.")
@reason
@bulk
@common
@click.pass_obj
def resume(
    session: Session, /, ids: Sequence[str], batch: str, profile: str, *, all_failed: bool, refresh: bool, **how: Any
) -> int:
    """Resume failed jobs with the step after the last successful one.

    A job continues with the profile that its batch kept when its jobs were created, and with the object manifest that
    it fetched first. --refresh replaces both: the current profile is then used by all unfinished jobs of the batch,
    and the manifest and files are fetched again. Rows of a batch manifest are never read again; submit it anew.
    """
    many = batch or profile or all_failed
    _one_of(ids, many, "a JID, --batch BID, --profile P, or --all-failed")
    with session.gate() as gate:
        from headgate.ingest.deposits import resume_refreshed

        act = partial(resume_refreshed, gate.queue, gate.deposits) if refresh else gate.queue.resume
        if not many:
            _say_frozen(session, gate, ids, refresh=refresh)
            return act_on_each(session, gate.queue, "resume", ids, act, **how)
        found = known(gate, gate.queue.jobs("failed", batch=batch, profile=profile), profile)
        _say_frozen(session, gate, [job.id for job in found], refresh=refresh)
        return act_on_all(session, "resume", found, act, **how)


@click.command("delete")
@click.argument("ids", metavar="[ID|ARK]...", nargs=-1, type=ItemIdOrArk("jid", "bid"))
@click.option("--failed", is_flag=True, help="All failed jobs of --batch or --profile.")
@click.option("--batch", type=ItemId("bid"), metavar="BID", help="With --failed: of this batch.")
@click.option("--profile", type=PROFILE, help="With --failed: of this profile.")
@click.option("--reason", required=True, help="Reason, kept in the history.")
@bulk
@common
@click.pass_obj
def delete(session: Session, /, ids: Sequence[str], batch: str, profile: str, *, failed: bool, **how: Any) -> int:
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
        return delete_objects(session, ids, **how)
    if failed and not (batch or profile):
        raise click.UsageError("--failed needs --batch BID or --profile P")
    with session.gate() as gate:
        if failed:
            found = known(gate, gate.queue.jobs("failed", batch=batch, profile=profile), profile)
            return act_on_all(session, "delete", found, gate.queue.delete, **how)
        return act_on_each(session, gate.queue, "delete", ids, gate.queue.delete, ask=True, **how)


@click.command("update-report", short_help="Report a failed batch again.")
@click.argument("batch", metavar="BID", type=ItemId("bid"))
@click.option("--reason", default="", help="Reason, kept in the history.")
@common
@click.pass_obj
def update_report(session: Session, batch: str, reason: str) -> None:
    """Report a failed batch again: what changed since the last report."""
    with session.gate() as gate, items.naming_the_nearest(session, gate.queue, batch):
        found = gate.queue.update_report(batch, reason=reason, by=session.client())
    session.answer(items.document(found), lambda: f"{found.id}  {found.state}")


@click.command("priority")
@click.argument("job", metavar="JID", type=ItemId("jid"))
@click.argument("priority", metavar="N", type=int)
@click.option("--reason", default="", help="Reason, kept in the history.")
@common
@click.pass_obj
def priority(session: Session, job: str, priority: int, reason: str) -> None:
    """Set the priority of an ingest job: 0 is first, 99 is last."""
    with session.gate() as gate, items.naming_the_nearest(session, gate.queue, job):
        found = gate.queue.set_priority(job, priority, reason=reason, by=session.client())
    session.answer(items.document(found), lambda: f"{found.id}  {found.state}, priority {found.priority}")


@click.command("pause", short_help="Pause the whole queue.")
@click.option("--reason", required=True, help="Reason, shown to everybody.")
@common
@click.pass_obj
def pause(session: Session, reason: str) -> None:
    """Pause the whole queue: no new work starts; running work finishes."""
    with session.gate() as gate:
        found = gate.queue.set_hold(ALL, reason=reason, by=session.client())
    session.answer(plain(found), lambda: f"paused  {found.reason}")


@click.command("unpause")
@common
@click.pass_obj
def unpause(session: Session) -> None:
    """Let a paused queue continue."""
    with session.gate() as gate:
        cleared = gate.queue.clear_hold(ALL, by=session.client())
    session.answer({"cleared": cleared}, lambda: "goes on" if cleared else "it was not paused")


COMMANDS = (hold, unhold, release, pause, unpause, resume, priority, delete, update_report)


def _say_frozen(session: Session, gate: Gate, ids: Sequence[str], *, refresh: bool) -> None:
    """Say what jobs keep from their start, of the first one; and that --refresh replaces it."""
    if refresh or not ids or session.quiet or session.as_json:
        return
    with items.naming_the_nearest(session, gate.queue, ids[0]):
        found = frozen_if_failed(gate, gate.queue.job(ids[0]))
    for sentence in [*found.sentences, REFRESH] if found else ():
        session.say(sentence)


def frozen_if_failed(gate: Gate, job: IngestJob) -> Frozen | None:
    """What a job that can be resumed keeps from its start."""
    return gate.deposits.frozen_of(job) if job.state == "failed" and job.last_successful is not None else None


def act_on_each(  # noqa: PLR0913 - each is an option of the command
    session: Session,
    queue: Queue,
    verb: str,
    ids: Sequence[str],
    act: Callable[..., Item],
    *,
    reason: str,
    dry_run: bool,
    yes: bool,
    ask: bool = False,
) -> int:
    """Act on those that were named; one alone is answered by itself, with its own error."""
    found = []
    for each in ids:
        with items.naming_the_nearest(session, queue, each):
            found.append(queue.batch(each) if is_batch(each) else queue.job(each))
    if len(found) > 1 or dry_run:
        yes = yes or not ask or not _terminal()
        return act_on_all(session, verb, found, act, reason=reason, dry_run=dry_run, yes=yes, needs_reason=False)
    if ask and not yes and _terminal() and not _agreed(verb, found):
        session.say("nothing was changed")
        return 0
    done = act(found[0].id, reason=reason, by=session.client())
    session.answer(items.document(done), lambda: f"{done.id}  {'deleted' if verb == 'delete' else done.state}")
    return 0


def act_on_all(  # noqa: PLR0913 - each is an option of the command
    session: Session,
    verb: str,
    found: Sequence[Item],
    act: Callable[..., Item],
    *,
    reason: str,
    dry_run: bool,
    yes: bool,
    needs_reason: bool = True,
    first: Callable[[], None] = lambda: None,
) -> int:
    """Show them, ask, act on each, and report those that refused. `first`: done before, once that is agreed."""
    if not found:
        session.answer({"count": 0, "items": []}, lambda: f"nothing to {verb}")
        return NOTHING_TO_DO
    if dry_run:
        shown = {"dry_run": True, "count": len(found), "items": [items.document(each) for each in found]}
        session.answer(shown, lambda: _preview(verb, found))
        return 0
    if needs_reason and not reason.strip():
        raise click.UsageError(f"{len(found)} would be changed: give a reason with --reason")
    if not yes:
        if not _terminal():
            raise click.UsageError(f"{len(found)} would be changed: add --yes to do it, or --dry-run to see them")
        if not _agreed(verb, found):
            session.say("nothing was changed")
            return 0
    first()
    return _act(session, verb, found, act, reason)


def _act(session: Session, verb: str, found: Sequence[Item], act: Callable[..., Item], reason: str) -> int:
    done, refused = [], []
    for each in found:
        try:
            done.append(act(each.id, reason=reason, by=session.client()))
        except (Refused, UnknownName) as error:
            refused.append({"id": each.id, "why": str(error)})
    document = {"count": len(done), "items": [items.document(each) for each in done], "refused": refused}
    session.answer(document, lambda: f"{verb}: {len(done)} done" + (f", {len(refused)} refused" if refused else ""))
    if refused:
        session.say(table(("ID", "REFUSED"), [(each["id"], each["why"]) for each in refused[:PREVIEW]]))
    return TRY_LATER if refused else 0


def _preview(verb: str, found: Sequence[Item]) -> str:
    more = f"\n… and {len(found) - PREVIEW} more" if len(found) > PREVIEW else ""
    return f"{items.item_table(found[:PREVIEW])}{more}\n{verb} would change {len(found)}"


def _agreed(verb: str, found: Sequence[Item]) -> bool:
    warning = ""
    if verb == "delete":
        warning = "\nDeleted items cannot be restored, and will not be in any later report."
    say(_preview(verb, found) + warning)
    return click.confirm(f"{verb} {len(found)}?", err=True)


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def known(gate: Gate, found: Sequence[T], profile: str | None) -> Sequence[T]:
    """What was found; UnknownName if that is nothing because the profile is mistyped."""
    if profile and not found:
        gate.queue.check_profile(profile)
    return found


def _held(queue: Queue, profile: str) -> list[Item]:
    """What the hold of a collection has stopped; not what kills its workers, which an operator looks at one by one."""
    held: list[Item] = [*queue.batches("held", profile=profile), *queue.jobs("held", profile=profile)]
    return [item for item in held if not item.former]


def _one_of(ids: Sequence[str], many: object, what: str) -> None:
    if bool(ids) == bool(many):
        raise click.UsageError(f"name {what}" + (", not both" if ids else ""))
