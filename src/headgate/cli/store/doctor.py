"""`headgate doctor`: find damage in the store, explain it, and repair it on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.terminal.alarms import alarm_lines
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import FAILED
from headgate.cli.terminal.options import common
from headgate.cli.terminal.progress import working
from headgate.core.values.plurals import plural, plural_of
from headgate.core.values.wire import plain
from headgate.store_opening import named_store

if TYPE_CHECKING:
    from headgate.core.counts import Counts
    from headgate.core.faults import Fault
    from headgate.gate import Gate

#: Number of repair rounds: one may reveal another fault.
MOST_ROUNDS = 5


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Repair what can be repaired, as listed.")
@common
def doctor(console: Console, repair: bool) -> int:  # noqa: FBT001 - click passes by name
    """Check the store for damage and explain it; repair it with --repair.

    Checks batches and ingest jobs (in two places or none, miscounted, taken by dead workers), chunks (missing from the
    index of available chunks, running without a lease, without an output record, of undefined jobs), locks (without
    their resource, miscounted, with leases that never expire, without their storage guard), counters that would issue
    an id or token twice, undelivered mails and callbacks (--repair resends them), deleted history, missing nodes in
    ZooKeeper, files that other users can access, and the store's clock.

    Reports what is stuck, each with the command that fixes it: a batch or ingest job that no running consumer can
    take or whose profile cannot be used, work for a daemon that does not run, items that wait far longer than usual,
    and chunks that wait more than a day for a job that has not run for as long (or longer, if it pauses longer
    between its runs; `headgate job pause` silences it).

    Nothing is changed without --repair. The store can be in use meanwhile. A note is not a fault: for example, that
    waiters poll because the database is behind a pooler and `listen_url` is not set.

    Exit code 0 if no fault remains and nothing is stuck, 1 otherwise.

    \b
    Examples:
      headgate doctor
      headgate doctor --repair --json
    """

    with console.gate() as gate, working(console, "checking everything"):
        looked = _looked_at(gate.counts())
        repaired, left = _repair(gate, console.client()) if repair else ([], gate.faults())
        notices, alarms = [*gate.notices(), *_beside(gate)], gate.alarms()
    document = {
        "store": plain(named_store(console.settings)),
        "looked_at": {plural_of(noun): count for noun, count in looked.items()},
        "faults": plain(left),
        "repaired": plain(repaired),
        "notices": notices,
        "alarms": [{**plain(alarm), "command": alarm.command} for alarm in alarms],
    }
    stuck = alarm_lines(console, alarms)
    console.answer(document, lambda: _text(console, looked, left, repaired, notices, stuck))
    return FAILED if left or alarms else 0


def _looked_at(now: Counts) -> dict[str, int]:
    """Count what was checked."""
    return {
        "batch": now.batches, "ingest job": now.ingest_jobs, "hold": now.collections_held,
        "claim": now.chunks_running + now.claims_expired, "locked resource": now.locked_resources,
    }  # fmt: skip


def _beside(gate: Gate) -> list[str]:
    """Other programs' entries beside the ingest queue."""
    found = [
        f"{place} ({', '.join(f'{count:,} {status}' for status, count in counts.items()) or 'empty'})"
        for place, counts in gate.queue.foreign().items()
    ]
    return [f"other programs keep beside the queue, which is left alone: {'; '.join(found)}"] if found else []


def _repair(gate: Gate, by: str) -> tuple[list[Fault], list[Fault]]:
    """The repaired and remaining faults."""
    repaired: list[Fault] = []
    left = gate.faults()
    for _ in range(MOST_ROUNDS):
        done = [fault for fault in left if fault.repair and gate.repair(fault, by=by)]
        repaired += done
        if not done:
            break
        left = gate.faults()
    return repaired, left


def _text(
    console: Console, looked: dict[str, Any], left: Sequence[Fault], repaired: Sequence[Fault], notices: Sequence[str],
    stuck: Sequence[str],
) -> str:  # fmt: skip
    checked = ", ".join(plural(count, noun) for noun, count in looked.items())
    lines = [console.store_line(), f"checked: {checked}"]
    lines += [f"note     {each}" for each in notices]
    lines += [f"repaired {each.item}: {each.what}" for each in repaired]
    for each in left:
        lines += [
            f"FAULT    {each.item}: {each.what} ({each.kind})",
            f"         repair: {each.repair or 'none; an operator must decide'}",
        ]
    lines += stuck
    if not left:
        return "\n".join([*lines, "no damage, but something is stuck" if stuck else "nothing is wrong"])
    can = sum(1 for each in left if each.repair)
    hint = f"; {can} can be repaired: {console.command('doctor', '--repair')}" if can else ""
    return "\n".join([*lines, f"{plural(len(left), 'fault')}{hint}"])
