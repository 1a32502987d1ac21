"""Commands about the store itself: which server keeps it, and raising its tokens after an unnoticed failover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import DRY_RUN, REASON, YES, InOrder, common
from headgate.cli.terminal.output import ago, aligned
from headgate.cli.terminal.progress import working
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.stores.ports.epochs import Raised, StoreState


@click.group("store", cls=InOrder)
def store() -> None:
    """Show the server behind the store; raise its tokens after a failover.

    \b
    Examples:
      headgate store show
      headgate store raise-tokens --reason "disk image restored" --dry-run
    """


@store.command("show")
@common
def show(console: Console) -> None:
    """Show the server epoch of the store and its highest tokens.

    \b
    Example:
      headgate store show
    """
    found = console.ask(lambda gate: gate.epochs.states())
    console.answer({"stores": [{"name": name, **plain(state)} for name, state in found]}, lambda: _shown(found))


@store.command("raise-tokens")
@REASON
@DRY_RUN
@YES
@common
def raise_tokens(console: Console, reason: str, dry_run: bool, yes: bool) -> None:  # noqa: FBT001 - click passes by name
    """Raise all tokens far beyond those in use, as after a failover.

    Use it if the database lost its latest commits and Headgate cannot detect that: a server that was restored from a
    disk image, or a promoted standby that did not follow the last primary. Leased locks and claims end without counting
    as a failure or crash, batches and ingest jobs in progress return to the queue, and persistent locks get a new
    token. Reports with older tokens are refused.

    \b
    Examples:
      headgate store raise-tokens --reason "disk image restored" --dry-run
      headgate store raise-tokens --reason "disk image restored" --yes
    """
    with console.gate() as gate:
        found = gate.epochs.states() if dry_run or not yes else []
        if dry_run:
            document = {"dry_run": True, "stores": [{"name": name, **plain(state)} for name, state in found]}
            console.answer(document, lambda: _would(found))
            return
        otherwise = "leases would expire: add --yes to do it, or --dry-run to list them"
        if not yes and not console.agrees("raise all tokens?", _would(found), otherwise):
            return
        with working(console, "raising all tokens"):
            raised = gate.epochs.raise_tokens(reason=reason, by=console.client())
        for note in gate.epochs.left_out:
            console.say(note)
    console.answer({"stores": plain(raised)}, lambda: "\n".join(_done(each) for each in raised))


def _would(found: Sequence[tuple[str, StoreState]]) -> str:
    def line(name: str, state: StoreState) -> str:
        kept = plural(state.persistent_locks, "persistent lock")
        return f"{name}: would expire {_counts(state)}; would give {kept} a new token"

    return "\n".join(line(name, state) for name, state in found)


def _done(raised: Raised) -> str:
    kept = f"{plural(raised.persistent_locks, 'persistent lock')} with a new token"
    return f"{raised.store}: new tokens start after {raised.floor}; expired {_counts(raised)}; {kept}"


def _counts(what: StoreState | Raised) -> str:
    return (
        f"{plural(what.leased_locks, 'leased lock')}, {plural(what.claims, 'claim')}, "
        f"{plural(what.items, 'batch or ingest job', 'batches or ingest jobs')}"
    )


def _shown(found: Sequence[tuple[str, StoreState]]) -> str:
    return "\n\n".join(aligned([["store", name], *_lines(state)]) for name, state in found)


def _lines(state: StoreState) -> list[list[str]]:
    followed = state.epoch or "-"
    if state.server != state.epoch:
        followed += f", but the server's is {state.server}: the next change adopts it"
    lines = [
        ["epoch", followed],
        ["tokens after", str(state.token_floor)],
        ["greatest token of a lock", str(state.highest_token)],
    ]
    if state.raised_at is not None:
        lines.append(["tokens raised", f"{ago(state.raised_at)}: {state.raised_because}"])
    return lines
