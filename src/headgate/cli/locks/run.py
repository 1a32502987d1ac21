"""`headgate lock run`: running a command while locks are held."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.processes.user_command import GRACE, PASS_API_TOKEN, RunCommand, open_processes, user_command
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.cli.terminal.values import DURATION
from headgate.core.errors import BadValue, LockLost, LockRefused, Lost, Unavailable
from headgate.core.values.durations import in_words

if TYPE_CHECKING:
    from threading import Timer

    from headgate.service.leases.renewal import LockHold

CLIENT = click.option("--client", help="Name of the client (default: the setting `client`, or user@host).")
WAIT = click.option(
    "--wait", type=DURATION, default=0, help="Longest time in the wait queue (default: 0s, do not wait)."
)
NOTE = click.option("--note", default="", help="Remark shown in lists.")
#: Longest time for releasing locks after the command has ended or was stopped; leases expire anyway.
GOODBYE_SECONDS, LOST_GOODBYE_SECONDS = 5.0, 1.0


@click.command("run", cls=RunCommand, short_help="Run a command while locks are held.")
@click.argument("resources", metavar="RESOURCE[=MODE]...", nargs=-1, required=True)
@CLIENT
@WAIT
@click.option(
    "--lease", type=DURATION, default=60, help="Time until locks expire after this process died (default: 60s)."
)
@NOTE
@GRACE
@click.option(
    "--conflict-exit-code", type=click.IntRange(0, 255), metavar="N", help="Exit code when refused (default: 75)."
)
@PASS_API_TOKEN
@common
def run(console: Console, /, resources: Sequence[str], conflict_exit_code: int | None, **how: Any) -> int:
    """Run CMD while holding locks, and stop it before a lock can be lost.

    Either all RESOURCEs are locked or none. MODE is shared (read) or exclusive (write, the default). The text after the
    last = is the mode: give a resource whose name contains = with its mode, as in 'x=1=exclusive'.

    CMD runs without a shell, in its own session; signals are passed on to it. Its environment contains
    HEADGATE_CLIENT, HEADGATE_LOCKS (JSON: resource, mode, id, token) and, for a single RESOURCE, HEADGATE_LOCK_ID and
    HEADGATE_TOKEN: pass the token to the systems that CMD writes to. It inherits the rest of the environment, except
    Headgate's own secrets (API token, keys and key files, mail password).

    The exit code is that of CMD (128 + n if signal n ended it), 75 if a lock was refused, 76 if a lock was lost and
    CMD was stopped, 126 or 127 if CMD cannot be run. Processes that CMD leaves behind in its process group are stopped
    too. With --json, errors are printed as JSON; stdout belongs to CMD.

    \b
    Examples:
      headgate lock run mysql://db1/core -- ./copy.sh
      headgate lock run --wait 10m mysql://db1/core=shared file:/x -- make report
    """
    try:
        return _run(console, parse_wants(resources), user_command(), **how)
    except LockRefused:
        if conflict_exit_code is None:
            raise
        return conflict_exit_code


def parse_wants(words: Sequence[str]) -> dict[str, str]:
    """The mode of each resource, written as RESOURCE or RESOURCE=MODE."""
    from headgate.core.locks.parsing import parse_want

    wants: dict[str, str] = {}
    for word in words:
        resource, mode = parse_want(word)
        if resource in wants:
            raise BadValue("resource", resource, "is named twice; name each once, with the stronger mode")
        wants[resource] = mode
    return wants


def _run(
    console: Console,
    wants: Mapping[str, str],
    command: Sequence[str],
    *,
    client: str | None,
    lease: float,
    grace: float | None,
    pass_api_token: bool,
    **how: Any,
) -> int:
    from headgate.cli.processes.environment import withheld
    from headgate.cli.processes.running import Following, StopLimits
    from headgate.service.checks import check_lease

    check_lease(lease)
    limits = StopLimits.of(lease, grace)
    code: int | None = None
    with ExitStack() as leaving, open_processes(console, command) as processes, console.gate() as gate:
        following = Following(processes, limits)
        held = gate.locks.held_all(console.client(client), wants, lease=lease, on_lost=following.look, **how)
        try:
            with held as holds:
                kept_back = withheld(pass_api_token=pass_api_token)
                code = following.until_end(holds, {**kept_back, **environment(holds), **console.store_variables()})
                leaving.callback(_leave_soon(console, following.lost, code).cancel)
                if following.lost is not None:
                    raise following.lost
        except LockLost as lost:
            raise _explained(lost, following.lost, code) from None
        except Unavailable as error:
            if code is None:
                raise
            console.say(f"headgate: {error}; the locks expire within {in_words(lease)}")
        if following.left_something:
            console.say("headgate: stopped processes that the command had left running")
    return code


def environment(holds: Sequence[LockHold]) -> dict[str, str]:
    """Variables for the command: the client and each lock; with one lock also its id and token."""
    locks = [{"resource": each.resource, "mode": each.mode, "id": each.id, "token": each.token} for each in holds]
    told = {"HEADGATE_CLIENT": holds[0].client, "HEADGATE_LOCKS": json.dumps(locks, ensure_ascii=False)}
    # Empty rather than absent if there are several: an outer lock run may have set its own.
    only = locks[0] if len(locks) == 1 else {"id": "", "token": ""}
    return {**told, "HEADGATE_LOCK_ID": str(only["id"]), "HEADGATE_TOKEN": str(only["token"])}


def _explained(lost: Lost, ended_for: Lost | None, code: int | None) -> Lost:
    """The loss, and what it means for the command's work."""
    if isinstance(ended_for, LockLost):
        return LockLost(ended_for.lock_id, ended_for.token, f"{ended_for.why}; the command was stopped")
    if not isinstance(lost, LockLost):
        return lost
    return LockLost(
        lost.lock_id,
        lost.token,
        (
            f"{lost.why}; the command had finished (exit code {code}), but its work may have overlapped with that of "
            "another client"
        ),
    )


def _leave_soon(console: Console, lost: Lost | None, code: int) -> Timer:
    """Start a timer that ends this process: the command has ended, and an unavailable store must not delay the exit."""
    import os
    from threading import Timer

    from headgate.cli.terminal.failures import report

    def leave() -> None:
        os._exit(report(_explained(lost, lost, code), console) if lost else code)

    timer = Timer(LOST_GOODBYE_SECONDS if lost else GOODBYE_SECONDS, leave)
    timer.daemon = True
    timer.start()
    return timer
