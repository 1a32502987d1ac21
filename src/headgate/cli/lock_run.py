"""`headgate lock run`: a command that runs while locks are held."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.session import DURATION, Session, common
from headgate.core.durations import in_words
from headgate.core.errors import BadValue, LockLost, LockRefused, Lost, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.cli.processes import Processes
    from headgate.service.renewal import Hold

COMMAND = "headgate.command"
#: The longest time to give locks back after the command has ended, or was ended; leases end by themselves.
GOODBYE_SECONDS, LOST_GOODBYE_SECONDS = 5.0, 1.0


PASS_API_TOKEN = click.option(
    "--pass-api-token", is_flag=True, help="Pass HEADGATE_API_TOKEN on to CMD, so that it can call the service."
)


class RunCommand(click.Command):
    """Everything after the first -- is the command to run, taken as it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = args[end + 1 :]
        rest = super().parse_args(ctx, args[:end])
        if not ctx.meta[COMMAND] and not ctx.resilient_parsing:
            raise click.UsageError("Name the command to run after --", ctx)
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "--", "CMD..."]


@click.command("run", cls=RunCommand, short_help="Run a command while locks are held.")
@click.argument("resources", metavar="RESOURCE[=MODE]...", nargs=-1, required=True)
@click.option("--client", help="Name of the client (default: the setting `client`, or user@host).")
@click.option("--wait", type=DURATION, default=0, help="Longest time in the wait queue (default: 0s, do not wait).")
@click.option(
    "--lease", type=DURATION, default=60, help="Time until locks expire after this process died (default: 60s)."
)
@click.option("--note", default="", help="Remark that lists show.")
@click.option(
    "--grace", type=DURATION, help="Time between SIGTERM and SIGKILL for CMD (default: 10s or a quarter lease)."
)
@click.option(
    "--conflict-exit-code", type=click.IntRange(0, 255), metavar="N", help="Exit code when refused (default: 75)."
)
@PASS_API_TOKEN
@common
@click.pass_context
def run(context: click.Context, /, resources: Sequence[str], conflict_exit_code: int | None, **how: Any) -> int:
    """Run CMD while holding locks, and stop it before a lock can be lost.

    Either all RESOURCEs are locked or none. MODE is shared (read) or exclusive (write, the default). What follows the
    last = is the mode: write a resource whose name contains = with its mode, as in 'x=1=exclusive'.

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
    session: Session = context.obj
    try:
        return _run(session, parse_wants(resources), context.meta[COMMAND], **how)
    except LockRefused:
        if conflict_exit_code is None:
            raise
        return conflict_exit_code


def parse_wants(words: Sequence[str]) -> dict[str, str]:
    """The mode of each resource, written as RESOURCE or RESOURCE=MODE."""
    from headgate.core.locks import parse_want

    wants: dict[str, str] = {}
    for word in words:
        resource, mode = parse_want(word)
        if resource in wants:
            raise BadValue("resource", resource, "is named twice; name each once, with the stronger mode")
        wants[resource] = mode
    return wants


def _run(
    session: Session,
    wants: Mapping[str, str],
    command: Sequence[str],
    *,
    client: str | None,
    lease: float,
    grace: float | None,
    pass_api_token: bool,
    **how: Any,
) -> int:
    from headgate.cli.passing import withheld
    from headgate.cli.running import Following, Limits
    from headgate.service.checks import check_lease

    check_lease(lease)
    limits = Limits.of(lease, grace)
    code: int | None = None
    with open_processes(session, command) as processes, session.gate() as gate:
        following = Following(processes, limits)
        held = gate.locks.held_all(session.client(client), wants, lease=lease, on_lost=following.look, **how)
        try:
            with held as holds:
                kept_back = withheld(pass_api_token=pass_api_token)
                code = following.until_end(holds, {**kept_back, **environment(holds), **session.store_variables()})
                _leave_soon(session, following.lost, code)
                if following.lost is not None:
                    raise following.lost
        except LockLost as lost:
            raise _explained(lost, following.lost, code) from None
        except Unavailable as error:
            if code is None:
                raise
            session.say(f"headgate: {error}; the locks expire within {in_words(lease)}")
        if following.left_something:
            session.say("headgate: stopped processes that the command had left running")
    return code


def environment(holds: Sequence[Hold]) -> dict[str, str]:
    """What the command is told: who, and each lock; with one lock also its id and token by themselves."""
    locks = [{"resource": each.resource, "mode": each.mode, "id": each.id, "token": each.token} for each in holds]
    told = {"HEADGATE_CLIENT": holds[0].client, "HEADGATE_LOCKS": json.dumps(locks, ensure_ascii=False)}
    # Empty rather than absent with several: a lock run around this one has left its own there.
    only = locks[0] if len(locks) == 1 else {"id": "", "token": ""}
    return {**told, "HEADGATE_LOCK_ID": str(only["id"]), "HEADGATE_TOKEN": str(only["token"])}


def open_processes(
    session: Session, command: Sequence[str], folder: Path | None = None, *, keep_stderr: bool = False
) -> Processes:
    """The command, waiting for its start; the exit code of shells when it cannot be run."""
    from headgate.cli.failures import complain
    from headgate.cli.processes import CannotRun, Processes

    try:
        return Processes(command, folder, keep_stderr=keep_stderr)
    except CannotRun as error:
        complain(session, "cannot-run", str(error))
        raise click.exceptions.Exit(error.exit_code) from None


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


def _leave_soon(session: Session, lost: Lost | None, code: int) -> None:
    """The command has ended: a store that does not answer keeps nobody waiting for long."""
    import os
    import threading

    from headgate.cli.failures import report

    def leave() -> None:
        os._exit(report(_explained(lost, lost, code), session) if lost else code)

    timer = threading.Timer(LOST_GOODBYE_SECONDS if lost else GOODBYE_SECONDS, leave)
    timer.daemon = True
    timer.start()
