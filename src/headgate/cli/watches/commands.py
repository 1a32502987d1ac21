"""`headgate watch`: publish datasets by the files that arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import REASON, InOrder, common, limit_option, tabular
from headgate.cli.terminal.output import ago, page, table
from headgate.cli.terminal.values import DURATION
from headgate.cli.watches.files import watches_of
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain
from headgate.service.leases.clock import steady

if TYPE_CHECKING:
    from headgate.core.ledger.watches.model import FileWatch, WatchedFile, Watcher
    from headgate.daemons.watching.watcher import FileWatcher
    from headgate.gate import Gate

#: With --once: added to twice the time that a file has to be unchanged, and the shortest pause.
MORE_SECONDS, SHORTEST_PAUSE = 5.0, 0.05
FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PIPELINE.toml")
DATASETS = click.argument("datasets", metavar="[DATASET]...", nargs=-1)


@click.group("watch", cls=InOrder)
def watch() -> None:
    """Publish datasets by the files that arrive in folders and buckets.

    The table [dataset.NAME.watch] of a pipeline file says where the files of a dataset arrive, which data id each has,
    and when it counts. It stays in that file: the store keeps which files were counted, and never where to look.

    \b
    Examples:
      headgate watch check pipeline.toml
      headgate watch run pipeline.toml
      headgate watch run pipeline.toml orders --once
      headgate up --watch pipeline.toml
      headgate watch list

    \b
    A quick look, after headgate init:
      headgate watch list
    """


@watch.command("run", short_help="Publish files as they arrive.")
@FILE
@DATASETS
@click.option("--once", is_flag=True, help="Exit when every existing file counts, or cannot count yet.")
@click.option(
    "--lease", type=DURATION, default=30, help="Time until another watcher takes over from a dead one (default: 30s)."
)
@common
def run(console: Console, file: Path, datasets: Sequence[str], lease: float, *, once: bool) -> None:
    """Publish files as they arrive, until SIGTERM or SIGINT: of the DATASETs, or of all that the file watches.

    A file is published once, and never before it is complete, even if watchers are killed. Several watchers of one
    dataset may run at once: one works, and another one takes over when it ends. Define the datasets first (headgate
    define).

    With --once it waits until no file changes any more (`settle`), publishes what is complete, and exits. Files that
    wait for a marker or for other files of their chunk are left for the next run. Exit code 69: a folder or bucket
    could not be listed.
    """
    watches = watches_of(file, datasets)
    if not once:
        console.verbose = console.verbose if console.quiet else max(console.verbose, 1)
    with console.gate() as gate, _watchers(gate, watches, lease) as found:
        if once:
            _run_once(console, found)
            return
        from headgate.cli.service.daemons import Orders, heard_by
        from headgate.daemons.rounds import run_together

        for each in watches:
            console.say(f"watching {each.source} for {each.dataset}; stop with Ctrl-C")
        orders = Orders()
        with heard_by(orders):
            run_together([each.rounds for each in found], orders.stop)


@contextmanager
def _watchers(gate: Gate, watches: Sequence[FileWatch], lease: float) -> Iterator[list[FileWatcher]]:
    """The watchers, which let others take over at the end."""
    from headgate.daemon_wiring import file_watchers
    from headgate.service.checks import check_positive_lease

    found = file_watchers(gate, watches, check_positive_lease(lease))
    try:
        yield found
    finally:
        for each in found:
            each.stop()


def _run_once(console: Console, watchers: Sequence[FileWatcher]) -> None:
    """Poll until no file is still changing, and print what was published."""
    pause, rows = threading.Event(), []
    for each in watchers:
        published, until = each.look(), steady() + 2 * each.watch.settle + MORE_SECONDS
        while (left := each.settling) is not None and steady() < until:  # A file may grow forever.
            pause.wait(min(max(left, SHORTEST_PAUSE), each.watch.every))
            published += each.look()
        rows.append({"dataset": each.watch.dataset, "published": published, "changed": each.changed,
                     "incomplete": each.waiting, "problem": each.problem, "watched_by": each.other})  # fmt: skip
    console.answer_list(rows, lambda: "\n".join(_outcome(row) for row in rows))
    if failure := next((each.failure for each in watchers if each.failure), None):
        raise failure


def _outcome(row: dict[str, Any]) -> str:
    if row["watched_by"]:
        return f"{row['dataset']}: another watcher runs: {row['watched_by']}"
    changed = f", {row['changed']:,} changed" if row["changed"] else ""
    waiting = f", {plural(row['incomplete'], 'file')} not complete yet" if row["incomplete"] else ""
    problem = f"; {row['problem']}" if row["problem"] else ""
    return f"{row['dataset']}: {row['published']:,} published{changed}{waiting}{problem}"


@watch.command("check", short_help="Show what the existing files would publish.")
@FILE
@DATASETS
@limit_option("files")
@tabular
def check(console: Console, file: Path, datasets: Sequence[str], limit: int) -> None:
    """Show the data id of each existing file, or why it has none. Uses no store, and changes nothing."""
    rows = [row for each in watches_of(file, datasets) for row in _meanings(each)]
    shown, more = page(rows, limit)
    headings = ("DATASET", "FILE", "DATA ID", "NOT COUNTED BECAUSE")
    console.answer_list(
        [dict(zip(("dataset", "file", "dataid", "why"), row, strict=True)) for row in shown],
        lambda: table(headings, shown) if shown else "there are no files", more=more,
    )  # fmt: skip


def _meanings(each: FileWatch) -> list[tuple[str, str, str, str]]:
    from headgate.core.ledger.watches.names import UnreadableName
    from headgate.daemons.watching.places import place_of

    place = place_of(each)
    there = place.find(lambda: None)
    found: dict[str, tuple[str, str]] = {}
    reasons: dict[str, str] = {}
    for name, mark in there.files.items():
        if not mark.size and not place.is_unchanged([mark]):
            continue  # It stands for a folder of a bucket, or has just gone.
        try:
            meaning = each.chunk_of(name)
        except UnreadableName as error:
            reasons[name] = str(error)
        else:
            if meaning is None:
                reasons[name] = each.why_not(name)
            else:
                found[name] = meaning
    markers = {marker: name for name, (_, marker) in found.items() if marker}
    for name, (_, marker) in found.items():
        if marker and marker not in there.files:
            reasons[name] = f"its marker {marker} is not there"
    reasons |= {marker: f"it is the marker of {name}" for marker, name in markers.items() if marker in there.files}
    dataids = {name: dataid for name, (dataid, _) in found.items() if name not in markers}
    rows = [(each.dataset, name, dataids.get(name, ""), reasons.get(name, "")) for name in sorted({*found, *reasons})]
    return [(each.dataset, "", "", there.problem), *rows] if there.problem else rows


@watch.command("list")
@tabular
def list_watchers(console: Console) -> None:
    """List the watchers, with the last poll, the last new file, and the problem of each."""
    found = console.ask(lambda gate: gate.watches.list())
    now = datetime.now(UTC)
    rows = [
        (
            each.dataset, each.source, _state(each, now), "-" if each.looked is None else ago(each.looked),
            "-" if each.arrived is None else ago(each.arrived), each.files, each.changed, each.waiting, each.problem,
        )
        for each in found
    ]  # fmt: skip
    headings = ("DATASET", "SOURCE", "WATCHER", "LOOKED", "LAST FILE", "FILES", "CHANGED", "WAITING", "PROBLEM")
    console.answer_list(map(plain, found), lambda: table(headings, rows) if rows else "no dataset is watched")


def _state(each: Watcher, now: datetime) -> str:
    if each.alive:
        quiet = each.quiet_after is not None and each.quiet(now).total_seconds() > each.quiet_after
        return f"quiet for {in_words(each.quiet(now).total_seconds())}" if quiet else "running"
    return "stopped"


@watch.command("files", short_help="List the files that were counted.")
@click.argument("dataset", metavar="DATASET")
@click.option("--changed", is_flag=True, help="Only files that were delivered again with other content.")
@limit_option("files")
@tabular
def files(console: Console, dataset: str, limit: int, *, changed: bool) -> None:
    """List the files of a dataset that were counted, the newest first."""

    def ask(gate: Gate) -> list[WatchedFile]:
        found = (each for each in gate.watches.counted(dataset) if each.changes or not changed)
        return sorted(found, key=lambda each: (each.since, each.mark.name), reverse=True)

    shown, more = page(console.ask(ask), limit)
    rows = [(each.mark.name, each.dataid, each.mark.size, ago(each.since), each.changes) for each in shown]
    headings = ("FILE", "DATA ID", "BYTES", "COUNTED", "CHANGES")
    console.answer_list(map(plain, shown), lambda: table(headings, rows) if rows else "no files", more=more)


@watch.command("forget")
@click.argument("dataset", metavar="DATASET")
@REASON
@common
def forget(console: Console, dataset: str, reason: str) -> None:
    """Remove a watcher that will not come back, so that no alarm is raised. The files that were counted are kept."""
    console.ask(lambda gate: gate.watches.forget(dataset, reason=reason))
    console.answer({"dataset": dataset}, lambda: f"the watcher of {dataset} was removed")
