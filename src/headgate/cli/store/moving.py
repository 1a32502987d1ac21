"""Commands that copy, back up and restore a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.cli.terminal.progress import progress

if TYPE_CHECKING:
    from headgate.service.moving import Moved

#: Fewer rows take less than a second.
FEW = 20_000
FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("copy")
@click.argument("from_url")
@click.argument("to_url")
@click.option(
    "--force",
    is_flag=True,
    help="Copy even if locks, claims or items are held.",
)
@common
def copy(console: Console, from_url: str, to_url: str, force: bool) -> None:  # noqa: FBT001 - click passes by name
    """Copy a whole store into an empty one of any kind, and compare the two.

    Between SQLite, PostgreSQL and MariaDB everything is copied: locks, ledger, encrypted secrets, queue, inventory,
    outbox, API tokens, history. To or from ZooKeeper only the queue is copied. The target cannot be used until the copy
    is complete; after an interruption run the same command again. Stop all users of the old store first: later changes
    there are not copied. With --force, holders of locks, claims and items continue in the new store.

    \b
    Examples:
      headgate copy sqlite:///headgate.db postgresql://me@db1/headgate
      headgate copy sqlite:///headgate.db zookeeper://zk1,zk2,zk3/headgate
    """
    from headgate import moving
    from headgate.store_opening import store_options

    options = store_options(console.settings, create=True)
    with (
        moving.copying(from_url, to_url, force=force, options=options) as work,
        progress(console, work.total, FEW, "rows") as tell,
    ):
        moved = work.run(tell)
    queue_alone = "zookeeper" in (_kind(from_url), _kind(to_url))
    setting = "COORDINATION_URL" if _kind(to_url) == "zookeeper" else "URL"
    hint = "; coordination_url is no longer needed" if queue_alone and setting == "URL" else ""
    _answer(console, moved, f"to use it: export HEADGATE_{setting}={moved.target}{hint}")


@click.command("backup")
@click.argument("file", type=FILE)
@common
def backup(console: Console, file: Path) -> None:
    """Write a consistent snapshot of the whole store into one file, while others keep working.

    The file can be restored into a store of any kind. It contains digests of API tokens and encrypted secrets: only its
    owner can read it. Keep the keys elsewhere.

    \b
    Example:
      headgate backup headgate-2026-11-15.gz
    """
    from headgate import moving

    with moving.backing_up(console.settings, file) as work, progress(console, work.total, FEW, "rows") as tell:
        moved = work.run(tell)
    _answer(console, moved, *moving.not_backed_up(console.settings))


@click.command("restore")
@click.argument("file", type=FILE)
@common
def restore(console: Console, file: Path) -> None:
    """Restore a backup into an empty store.

    The whole file is checked before anything is written. Tokens, and the ids of batches and ingest jobs, continue far
    beyond those that were used before and after the backup, so that none is used twice. Each restore is recorded in
    FILE.restored, so that another restore of the same backup continues even further. Leases continue with the time
    they had left.

    \b
    Example:
      headgate restore headgate-2026-11-15.gz --url postgresql://me@db1/headgate
    """
    from headgate import moving

    with moving.restoring(console.settings, file) as work, progress(console, work.total, FEW, "rows") as tell:
        moved = work.run(tell)
    _answer(console, moved, *work.notes)


def _kind(url: str) -> str:
    return url.partition("://")[0]


def _answer(console: Console, moved: Moved, *hints: str) -> None:
    document = {
        "source": moved.source,
        "target": moved.target,
        "rows": moved.rows,
        "tables": {table: {"rows": rows, "sha256": digest} for table, (rows, digest) in moved.tables.items()},
    }
    console.answer(
        document, lambda: f"copied {moved.rows} rows from {moved.source} to {moved.target}, and compared them"
    )
    for hint in hints:
        console.say(hint)
