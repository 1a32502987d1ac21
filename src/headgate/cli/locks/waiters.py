"""`headgate lock waiters`: waiters, and the chains of clients that block them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import tabular
from headgate.cli.terminal.output import ago, table
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.locks.model import Blocker, Waiter

Stuck = Sequence[tuple["Waiter", tuple["Blocker", ...]]]
HEADINGS = ("TICKET", "CLIENT", "WAITS FOR", "RESOURCE", "SINCE", "PROCESS")
#: `--blocked-by` without a client.
ANYBODY = ""


@click.command("waiters", short_help="List clients that wait, and who blocks them.")
@click.option("--resource", help="Only waiters for exactly this resource.")
@click.option("--client", help="Only waiters of this client.")
@click.option(
    "--blocked-by",
    is_flag=False,
    flag_value=ANYBODY,
    metavar="[CLIENT]",
    help="Holders and earlier waiters that block each waiter; with a name, only waiters stuck behind that client.",
)
@tabular
def waiters(console: Console, resource: str | None, client: str | None, blocked_by: str | None) -> None:
    """List waiters, earliest first; with --blocked-by, show who is stuck behind whom.

    A client that blocks others and waits itself is followed to what it waits for, so that the last line of each chain
    is the one to look at. Clients that wait for each other in a cycle are reported as a deadlock.

    \b
    Examples:
      headgate lock waiters
      headgate lock waiters --blocked-by
      headgate lock waiters --blocked-by copy-core --json
    """
    everybody = console.ask(lambda gate: gate.locks.stuck())
    chains = Chains(everybody)
    shown = [
        (waiter, blockers)
        for waiter, blockers in everybody
        if resource in (None, waiter.resource)
        and client in (None, waiter.client)
        and (blocked_by in (None, ANYBODY) or blocked_by in chains.behind(waiter.client))
    ]
    document = [
        {**plain(waiter), "blocked_by": plain(blockers), "roots": chains.roots(waiter.client)}
        for waiter, blockers in shown
    ]
    if blocked_by is None:
        console.answer_list(document, lambda: _listing([waiter for waiter, _ in shown]))
    else:
        console.answer_list(document, lambda: "\n".join(chains.lines(shown)) or "no waiters")


class Chains:
    """Which client waits for which, across all resources."""

    def __init__(self, stuck: Stuck) -> None:
        self._stuck = stuck

    def behind(self, client: str) -> set[str]:
        """Every client that blocks this one, directly or through others."""
        found: set[str] = set()
        todo = [client]
        while todo:
            name = todo.pop()
            direct = {each.client for waiter, blockers in self._stuck if waiter.client == name for each in blockers}
            todo += sorted(direct - found)
            found |= direct
        return found

    def roots(self, client: str) -> list[str]:
        """Those of them that do not wait: the ends of chains."""
        waiting = {waiter.client for waiter, _ in self._stuck}
        return sorted(self.behind(client) - waiting)

    def lines(self, shown: Stuck) -> Iterator[str]:
        """Each waiter with what blocks it, indented."""
        for waiter, blockers in shown:
            yield _sentence(waiter)
            yield from self._below(blockers, (waiter.client,))

    def _below(self, blockers: Sequence[Blocker], path: tuple[str, ...]) -> Iterator[str]:
        indent = "  " * (2 * len(path) - 1)
        for blocker in blockers:
            yield f"{indent}blocked by: {blocker.sentence()}"
            if blocker.client in path[:-1]:
                ring = " waits for ".join((*path[path.index(blocker.client) :], blocker.client))
                yield f"{indent}  deadlock: {ring}"
            elif blocker.client != path[-1] and blocker.kind == "holder":
                yield from self._waits_of(blocker.client, (*path, blocker.client))

    def _waits_of(self, client: str, path: tuple[str, ...]) -> Iterator[str]:
        for waiter, blockers in self._stuck:
            if waiter.client == client:
                yield f"{'  ' * (2 * len(path) - 2)}{_sentence(waiter)}"
                yield from self._below(blockers, path)


def _sentence(waiter: Waiter) -> str:
    return f"{waiter.client} waits for {waiter.mode} on {waiter.resource} ({ago(waiter.since)})"


def _listing(waiting: Sequence[Waiter]) -> str:
    if not waiting:
        return "no waiters"
    rows: list[Sequence[object]] = [
        (each.ticket, each.client, each.mode, each.resource, ago(each.since), each.owner) for each in waiting
    ]
    return table(HEADINGS, rows)
