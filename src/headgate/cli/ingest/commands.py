"""Commands for the queue: submit, list, show, wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.ingest import acts as ingest_acts
from headgate.cli.ingest import items
from headgate.cli.ingest import objects as ingest_objects
from headgate.cli.ingest import operators as ingest_operators
from headgate.cli.ingest.audits import audit
from headgate.cli.ingest.items import ItemId
from headgate.cli.ingest.job_progress import bars
from headgate.cli.ingest.step_logs import logs
from headgate.cli.terminal import watching
from headgate.cli.terminal.alarms import alarm_lines
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import FAILED, TRY_LATER
from headgate.cli.terminal.options import TIMEOUT, InOrder, after_option, common, limit_option, tabular, word_option
from headgate.cli.terminal.output import ago, list_document, page, table
from headgate.cli.terminal.values import PROFILE, Word
from headgate.core.errors import BadValue
from headgate.core.queue import model
from headgate.core.queue.model import ALL, CLEANED, COMPLETED, Batch, Folder
from headgate.core.tables.states import BATCH, INGEST_JOB, MERRITT_INGEST_JOB
from headgate.core.values.wire import plain
from headgate.service.queue.checks import MODES, TYPES
from headgate.service.queue.progress import under_way

if TYPE_CHECKING:
    from headgate.core.queue.frozen import Frozen
    from headgate.core.queue.model import Hold, IngestJob, Item
    from headgate.gate import Gate
    from headgate.service.queue.progress import ItemProgress
    from headgate.service.queue.use_cases import Queue

T = TypeVar("T", "Batch", "IngestJob")
#: An item, and the data that is shown beside it.
S = TypeVar("S", bound="tuple[Item, *tuple[Any, ...]]")
TYPE, MODE = Word("type", TYPES), Word("mode", MODES)
TYPE_HELP = f"Type of the payload: {', '.join(TYPES)}."
BATCH_STATE = Word("state", [each for each in BATCH.states if each != BATCH.start])
JOB_STATE = Word("state", [each for each in INGEST_JOB.states if each != INGEST_JOB.start], MERRITT_INGEST_JOB.states)


#: States that end a batch or an ingest job, with the exit code of --watch.
ENDED = {COMPLETED: 0, CLEANED: 0, model.FAILED: FAILED}


@click.group("ingest", cls=InOrder)
def ingest() -> None:
    """Submit batches of objects to the ingest queue, and manage them.

    A batch consists of ingest jobs, one for each object. Daemons take them through the states: see `headgate daemon`.

    \b
    Examples:
      headgate ingest submit books.checkm --profile demo --submitter me
      headgate ingest batches --watch
      headgate ingest jobs --state failed
      headgate ingest resume --batch bid7 --reason "disk is back"
      headgate ingest hold demo --reason "collection is moved"

    \b
    A quick look, after headgate init:
      echo hello > hello.txt
      headgate ingest submit hello.txt --profile demo --submitter me --type file
      headgate ingest batches
      headgate ingest hold demo --reason "not today"
    """


@ingest.command("submit")
@click.argument("payload", metavar="FILE_OR_URL")
@click.argument("metadata", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--profile", type=PROFILE, required=True, help="Ingest profile, which names the collection.")
@click.option("--submitter", required=True, help="Name of the submitter.")
@click.option("--type", "kind", type=TYPE, default="object-manifest", show_default=True, help=TYPE_HELP)
@click.option("--mode", type=MODE, default="add", show_default=True, help="Add objects, or update existing ones.")
@click.option("--request-id", help="Id of this request: repeating it returns the same batch.")
@common
def submit(console: Console, /, payload: str, metadata: Sequence[str], kind: str, **how: Any) -> None:
    """Submit a payload as a new batch. The daemons download and check it later.

    A FILE is copied into the work folder, which the daemons must be able to read, or uploaded to the service.

    NAME=VALUE describes the payload: erc_who, erc_what, erc_when, local_id, primary_id, digest_type, digest_value, dc_…

    \b
    Example:
      headgate ingest submit book.checkm --profile demo --submitter me \\
        erc_what="A book" local_id=b17
    """
    named = _metadata(metadata)
    with console.gate() as gate:
        url = payload if "://" in payload or payload.startswith("file:") else gate.hand_in(Path(payload))
        batch = gate.queue.submit(payload_url=url, type=kind, **how, **named)
        alarms = gate.alarms_of(batch)
    document = {**items.document(batch), "alarms": [{**plain(each), "command": each.command} for each in alarms]}
    console.answer(document, lambda: f"{batch.id}  {batch.state}")
    for line in alarm_lines(console, alarms):
        console.say(line)
    console.say(f"to follow its progress: {console.command('ingest', 'batch', batch.id, '--watch')}")


@ingest.command("batches")
@word_option("--state", BATCH_STATE, "Only batches in this state.")
@click.option("--profile", type=PROFILE, help="Only batches of this profile.")
@click.option("--submitter", help="Only batches of this submitter.")
@partial(after_option, type=ItemId("bid"))
@limit_option("entries")
@watching.watchable
@tabular
def batches(console: Console, /, limit: int, *, watch: bool, every: float, **which: Any) -> None:
    """List batches by id."""
    find = partial(_found, lambda queue: queue.batches, limit, which)
    _answer_list(console, "batches", find, items.batch_table, limit, which, watch=watch, every=every)


@ingest.command("batch", short_help="Show a batch and the progress of its jobs.")
@click.argument("batch", metavar="BID", type=ItemId("bid"))
@watching.watchable
@common
def show_batch(console: Console, /, batch: str, *, watch: bool, every: float) -> int:
    """Show a batch, the progress of its jobs, and the commands that apply to it.

    With --watch it ends with the batch: exit code 0 when it is completed, 1 when it failed.
    """

    def ask(gate: Gate) -> tuple[Batch, Sequence[str], items.Way, Sequence[ItemProgress]]:
        with items.naming_the_nearest(console, gate.queue, batch):
            found = gate.queue.batch(batch)
        failed = gate.queue.job_ids(batch, Folder.FAILED)
        return found, failed, items.way_of(gate.queue, found), under_way(gate.queue, batch)

    def document(found: tuple[Batch, Sequence[str], items.Way, Sequence[ItemProgress]]) -> object:
        return {**items.document(found[0]), "failed_jobs": list(found[1]), "under_way": plain(found[3])}

    def text(found: tuple[Batch, Sequence[str], items.Way, Sequence[ItemProgress]]) -> str:
        return bars(found[3]) + items.batch_text(console, *found[:3])

    return _follow(console, ask, document, text, watch=watch, every=every)


@ingest.command("jobs")
@word_option("--state", JOB_STATE, "Only jobs in this state.")
@click.option("--batch", type=ItemId("bid"), metavar="BID", help="Only jobs of this batch.")
@click.option("--profile", type=PROFILE, help="Only jobs of this profile.")
@click.option("--taken", is_flag=True, help="Only jobs that a worker is processing.")
@partial(after_option, type=ItemId("jid"))
@limit_option("entries")
@watching.watchable
@tabular
def jobs(console: Console, /, limit: int, *, watch: bool, every: float, **which: Any) -> None:
    """List ingest jobs by id."""
    find = partial(_found, lambda queue: queue.jobs, limit, which)
    _answer_list(console, "jobs", find, items.job_table, limit, which, watch=watch, every=every)


@ingest.command("job")
@click.argument("job", metavar="JID", type=ItemId("jid"))
@watching.watchable
@common
def show_job(console: Console, /, job: str, *, watch: bool, every: float) -> int:
    """Show an ingest job, and the commands that apply to it.

    With --watch it ends with the job: exit code 0 when it is completed, 1 when it failed.
    """

    def ask(gate: Gate) -> tuple[IngestJob, items.Way, Sequence[str], Frozen | None]:
        with items.naming_the_nearest(console, gate.queue, job):
            found = gate.queue.job(job)
        way, reasons = items.way_of(gate.queue, found), items.waits_for(gate.queue, found)
        return found, way, reasons, ingest_acts.frozen_if_failed(gate, found)

    def document(found: tuple[IngestJob, items.Way, Sequence[str], Frozen | None]) -> object:
        return {**items.document(found[0]), "waits_for": list(found[2]), "frozen": plain(found[3])}

    def text(found: tuple[IngestJob, items.Way, Sequence[str], Frozen | None]) -> str:
        kept = ["", "", *found[3].sentences, ingest_acts.REFRESH] if found[3] else []
        return items.job_text(console, *found[:3]) + "\n".join(kept)

    return _follow(console, ask, document, text, watch=watch, every=every)


ingest.add_command(logs)


@ingest.command("wait", short_help="Wait until a batch or job has ended.")
@click.argument("item", metavar="BID|JID", type=ItemId("jid", "bid"))
@TIMEOUT
@common
def wait(console: Console, /, item: str, timeout: float | None) -> int:
    """Wait until a batch or an ingest job has ended, and print the outcome.

    A batch has ended when it is reported. A held batch or job has ended too: nothing happens to it until an operator
    releases it.

    Exit code 0 when it completed, 1 when it failed or is held, 75 when --timeout has passed.

    \b
    Examples:
      headgate ingest wait bid7 --timeout 1h
      headgate ingest wait jid12
    """
    with console.gate() as gate:
        first = items.find(console, gate.queue, item)
        for line in alarm_lines(console, gate.alarms_of(first)) if isinstance(first, Batch) else ():
            console.say(line)
        with items.naming_the_nearest(console, gate.queue, item):
            found, ended = watching.wait_until(
                console, gate.queue.following(item), lambda each: f"waiting for {each.id}: {each.state}", timeout
            )
    said = f": {found.message}" if found.message else ""
    console.answer({**items.document(found), "ended": ended}, lambda: f"{found.id}  {found.state}{said}")
    return ENDED.get(found.state, FAILED) if ended else TRY_LATER


@ingest.command("holds", short_help="List collections on hold.")
@tabular
def holds(console: Console) -> None:
    """List collections on hold, and whether the whole queue is paused."""
    found = console.ask(lambda gate: gate.queue.holds())
    console.answer_list(plain(found), lambda: _holds_text(console, found))


for command in (*ingest_acts.COMMANDS, *ingest_operators.COMMANDS, *ingest_objects.COMMANDS, audit):
    ingest.add_command(command)


def _follow(
    console: Console, ask: Callable[[Gate], S], document: Callable[[S], object], text: Callable[[S], str], *,
    watch: bool, every: float,
) -> int:  # fmt: skip
    """Show an item, with `watch` until it has ended. Returns the exit code."""
    last = watching.answer(
        console, ask, document, text, watch=watch, every=every, ended=lambda found: found[0].state in ENDED
    )
    return ENDED.get(last[0].state, 0) if watch else 0


def _metadata(words: Sequence[str]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or not name:
            raise BadValue("metadata", word, "does not have the form NAME=VALUE")
        if name in named:
            raise BadValue("metadata", name, "is given twice")
        named[name] = value
    return named


def _found(
    ask: Callable[[Queue], Callable[..., Sequence[T]]], limit: int, which: Mapping[str, Any], gate: Gate
) -> Sequence[T]:
    """One item more than the page has; UnknownName if there is none because the profile is mistyped."""
    return ingest_acts.known(gate, ask(gate.queue)(limit=limit + 1, **which), which["profile"])


def _answer_list(
    console: Console, what: str, find: Callable[[Gate], Sequence[T]], table: Callable[[Sequence[T]], str], limit: int,
    which: Mapping[str, Any], **how: Any,
) -> None:  # fmt: skip
    """Print a page of a list, and how to see the next one."""

    def document(found: Sequence[T]) -> object:
        shown, more = page(found, limit)
        return list_document(map(items.document, shown), more)

    def text(found: Sequence[T]) -> str:
        return table(found[:limit]) if found else _none(console, what, which)

    console.say_more(page(watching.answer(console, find, document, text, **how), limit)[1])


def _none(console: Console, what: str, which: Mapping[str, Any]) -> str:
    if any(which.values()):
        return f"no matching {what}; list all with: {console.command('ingest', what)}"
    how = console.command("ingest", "submit", "FILE_OR_URL", "--profile", "P", "--submitter", "S")
    return f"no {what} yet; submit something: {how}"


def _holds_text(console: Console, found: Sequence[Hold]) -> str:
    if not found:
        return (
            "nothing is on hold; to hold a collection: "
            f"{console.command('ingest', 'hold', 'PROFILE', '--reason', 'why')}"
        )
    rows = [
        ("the whole queue" if each.profile == ALL else each.profile, each.who, ago(each.since) if each.since else "-",
         each.reason)
        for each in found
    ]  # fmt: skip
    return table(("HELD", "BY", "SINCE", "WHY"), rows)
