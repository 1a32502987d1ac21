"""`headgate doctor`: finds what should not be, explains it, and mends it when asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.output import working
from headgate.cli.session import Session, common
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.core.queue import Fault

#: There is a fault that was not mended.
FAULTS_REMAIN = 1


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Mend what can be mended, as it is told here.")
@common
@click.pass_obj
def doctor(session: Session, repair: bool) -> int:  # noqa: FBT001 - click passes by name
    """Find what should not be in the store, say what it means, and mend it with --repair.

    Looks at batches and ingest jobs: in two places or none, counted wrongly, taken by the dead, entries without a job;
    at claims of chunks: whose worker died a while ago, where no daemon `reaper` runs; at mails and callbacks that did
    not arrive, which --repair sends again; and at persistent locks without the storage guard that they should have
    (setting `guards`). Of other locks it only says how many there are: their store mends them by itself, and the
    daemon `reaper` sooner.
    Nothing is changed without --repair. It is safe while others work.

    Exit code 0 when nothing is wrong (any more), 1 when a fault remains.

    \b
    Examples:
      headgate doctor
      headgate doctor --repair --json
    """
    with session.gate() as gate, working(session, "looking at everything"):
        looked = {**gate.looked_at(), "locked resources": gate.locks.status()["lockCount"]}
        found = gate.faults()
        mended = [each for each in found if repair and each.repair and gate.repair(each, by=session.client())]
        left = gate.faults() if mended else found
    document = {"looked_at": looked, "faults": plain(left), "mended": plain(mended)}
    session.answer(document, lambda: _text(session, looked, left, mended))
    return FAULTS_REMAIN if left else 0


def _text(session: Session, looked: dict[str, Any], left: Sequence[Fault], mended: Sequence[Fault]) -> str:
    lines = ["looked at: " + ", ".join(f"{count} {what}" for what, count in looked.items())]
    lines += [f"mended   {each.item}: {each.what}" for each in mended]
    for each in left:
        lines += [
            f"FAULT    {each.item}: {each.what} ({each.kind})",
            f"         repair: {each.repair or 'none; a person must look'}",
        ]
    if not left:
        return "\n".join([*lines, "nothing is wrong"])
    can = sum(1 for each in left if each.repair)
    hint = f"; {can} can be mended: {session.command('doctor', '--repair')}" if can else ""
    return "\n".join([*lines, f"{len(left)} fault(s){hint}"])
