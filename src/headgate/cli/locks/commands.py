"""Commands for locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.locks.run import CLIENT, NOTE, WAIT, run
from headgate.cli.locks.waiters import waiters
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import ANY_REASON, REASON, InOrder, after_option, common, limit_option, tabular
from headgate.cli.terminal.output import ago, lease_words, lock_document, page, painted, pairs, table
from headgate.cli.terminal.values import DURATION, Word
from headgate.core.errors import StoreUnavailable
from headgate.core.locks.model import Mode
from headgate.core.locks.parsing import MODE_WORDS
from headgate.core.values.durations import in_words
from headgate.core.values.wire import plain, rfc3339

if TYPE_CHECKING:
    from headgate.core.locks.model import Lock, Waiter

F = TypeVar("F", bound=Callable[..., Any])

MODE = Word("mode", tuple(Mode), tuple(MODE_WORDS))
HEADINGS = ("STATE", "RESOURCE", "CLIENT", "SINCE", "LEASE", "TOKEN", "ID")


def grant(function: F) -> F:
    """Add the arguments that identify a grant: its ID and --token."""
    token = click.option(
        "--token", type=int, required=True, metavar="N", help="Token of the lock, as `lock acquire` printed it."
    )
    return click.argument("lock_id", metavar="ID")(token(override(function)))


def override(function: F) -> F:
    """The reason for overriding another principal's lock."""
    text = "Reason for overriding another principal's lock. Needs the scope admin:force; kept in the history."

    @wraps(function)
    def call(*args: Any, override: str | None, **more: Any) -> Any:
        from headgate.calls.actor import acting
        from headgate.core.access.owners import Actor
        from headgate.core.values.names import check_reason

        with acting(Actor(override="" if override is None else check_reason(override))):
            return function(*args, **more)

    return click.option("--override", metavar="REASON", help=text)(call)  # type: ignore[return-value] # the same kind


@click.group("lock", cls=InOrder)
def lock() -> None:
    """Acquire, release, list and break locks; run commands while holding them.

    A lock is shared (read) or exclusive (write). Any number of clients can hold shared locks on a resource; an
    exclusive lock excludes all others. A RESOURCE is any name, usually a URI.

    \b
    Examples:
      headgate lock run mysql://db1/core -- ./copy.sh
      headgate lock acquire mysql://db1/core --client copy-core --wait 5m
      headgate lock list

    \b
    A quick look, after headgate init:
      headgate lock run file:/data/x -- echo "nobody else holds it"
      headgate lock acquire file:/data/x --client me --mode shared --lease 10m
      headgate lock list
      headgate history --resource file:/data/x
    """


lock.add_command(run)
lock.add_command(waiters)


@lock.command("acquire")
@click.argument("resource", metavar="RESOURCE[=MODE]")
@CLIENT
@click.option("--mode", type=MODE, help="Mode of the lock, if RESOURCE does not name one (default: exclusive).")
@WAIT
@click.option("--lease", type=DURATION, help="Lease length: without `lock renew` the lock expires (default: no lease).")
@NOTE
@click.option("--reentrant", is_flag=True, help="Count repeated holds of the same client instead of refusing them.")
@click.option("--request-id", help="Id of this request: repeating it returns the same lock again.")
@common
def acquire(
    console: Console, /, resource: str, mode: str | None, client: str | None, request_id: str | None, **how: Any
) -> None:
    """Acquire a lock on RESOURCE, and print its id and token.

    The lock outlives this command. It is held until `lock release`; with --lease it also expires when `lock renew` is
    not called in time. To hold a lock while a program runs, use `lock run`.

    MODE is shared (read) or exclusive (write). What follows the last = is the mode: write a resource whose name
    contains = with its mode, as in 'x=1=exclusive', or give --mode.

    \b
    Examples:
      headgate lock acquire mysql://db1/core --client copy-core
      headgate lock acquire file:/data/x=shared --wait 5m
      headgate lock acquire file:/data/x --lease 10m --json
    """
    from headgate.core.locks.parsing import parse_want
    from headgate.service.access.identity import new_request_id

    resource, how["mode"] = parse_want(resource, mode)
    request_id = new_request_id() if request_id is None else request_id
    with console.gate(stay=how["lease"] is not None) as gate:
        gate.locks.must_outlive(resource)
        try:
            granted = gate.locks.acquire(console.client(client), resource, request_id=request_id, **how)
        except StoreUnavailable as error:
            error.request_id = request_id
            raise
        try:
            _answer(console, "granted", granted)
        except OSError:  # Nobody knows the id, so nobody could release it.
            gate.locks.release(granted)
            raise
    console.say("release it with: " + console.command("lock", "release", granted.id, "--token", str(granted.token)))


@lock.command("release")
@grant
@common
def release(console: Console, lock_id: str, token: int) -> None:
    """Release a lock.

    Fails, and changes nothing, if the lock has expired, was broken or was released already.

    \b
    Example:
      headgate lock release 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    console.ask(lambda gate: gate.locks.release(lock_id, token))
    console.answer({"id": lock_id, "token": token, "released": True}, lambda: f"released  {lock_id}")


@lock.command("renew")
@grant
@click.option("--lease", type=DURATION, help="New lease length (default: as before).")
@common
def renew(console: Console, lock_id: str, token: int, lease: float | None) -> None:
    """Renew the lease of a lock.

    \b
    Examples:
      headgate lock renew 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
      headgate lock renew 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12 --lease 1h
    """
    _answer(console, "renewed", console.ask(lambda gate: gate.locks.renew(lock_id, token, lease=lease), stay=True))


@lock.command("check", short_help="Check whether a lock is still held.")
@grant
@common
def check(console: Console, lock_id: str, token: int) -> None:
    """Check whether a lock is still held: exit code 0, or 76 if it was lost.

    \b
    Example:
      headgate lock check "$ID" --token "$TOKEN" && ./publish.sh
    """
    _answer(console, "held", console.ask(lambda gate: gate.locks.check(lock_id, token)))


@lock.command("upgrade", short_help="Change a shared lock to exclusive.")
@grant
@common
def upgrade(console: Console, lock_id: str, token: int) -> None:
    """Change a shared lock to exclusive, and print its new token.

    Refused if other clients hold the resource. It never waits, because two readers could wait for each other forever.

    \b
    Example:
      headgate lock upgrade 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    _answer(console, "upgraded", console.ask(lambda gate: gate.locks.upgrade(lock_id, token)))


@lock.command("downgrade", short_help="Change an exclusive lock to shared.")
@grant
@common
def downgrade(console: Console, lock_id: str, token: int) -> None:
    """Change an exclusive lock to shared in one step: no writer can get in between.

    \b
    Example:
      headgate lock downgrade 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    _answer(console, "downgraded", console.ask(lambda gate: gate.locks.downgrade(lock_id, token)))


@lock.command("hand-over", short_help="Transfer a lock to another principal.")
@click.argument("lock_id", metavar="ID")
@click.option("--to", required=True, metavar="PRINCIPAL", help="New owner.")
@ANY_REASON
@override
@common
def hand_over(console: Console, lock_id: str, to: str, reason: str) -> None:
    """Transfer a lock to another principal.

    You must own the lock, or give --override. The lock gets a new token, so its former owner can no longer use it.

    \b
    Example:
      headgate lock hand-over 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --to nightly
    """
    handed = console.ask(lambda gate: gate.locks.hand_over(lock_id, to=to, reason=reason))
    _answer(console, f"handed over to {handed.principal}", handed)


@lock.command("list")
@click.option("--resource", help="Only locks on exactly this resource.")
@click.option("--client", help="Only locks of this client.")
@click.option("--mode", type=MODE, help="Only locks in this mode.")
@limit_option("locks")
@after_option
@tabular
def list_locks(console: Console, /, limit: int, **which: Any) -> None:
    """List locks and the clients that wait for them.

    \b
    Examples:
      headgate lock list
      headgate lock list --resource mysql://db1/core
      headgate lock list --client copy-core --mode exclusive --json
    """
    with console.gate() as gate:
        found = list(gate.locks.list(limit=limit + 1, **which))
        waiting = [] if which["after"] else _waiters(gate.locks.waiters(which["resource"]), which)
    shown, more = page(found, limit)
    console.answer_list(map(lock_document, shown), lambda: _listing(shown, waiting), more=more, waiting=plain(waiting))


@lock.command("show")
@click.argument("lock_id", metavar="ID")
@common
def show(console: Console, lock_id: str) -> None:
    """Show one lock.

    \b
    Example:
      headgate lock show 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w
    """
    found = console.ask(lambda gate: gate.locks.get(lock_id))
    console.answer(lock_document(found), lambda: _description(found))


@lock.command("break", short_help="Break a lock that another client holds.")
@click.argument("lock_id", metavar="ID")
@REASON
@common
def break_lock(console: Console, lock_id: str, reason: str) -> None:
    """Break a lock that another client holds: its token becomes stale.

    The holder notices it at its next call; `lock run` then stops its command. Make sure that the holder no longer works
    on the resource before another client acquires it.

    \b
    Example:
      headgate lock break 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --reason "db3 died"
    """
    broken = console.ask(lambda gate: gate.locks.break_lock(lock_id, reason=reason, by=console.client()))
    _answer(console, "broken", broken, reason=reason)


def _answer(console: Console, outcome: str, lock: Lock, **beside: object) -> None:
    """Print the outcome for a lock, its id and its token. A service shows the token only to its owner."""
    token = f"  token {lock.token}" if lock.token else ""
    lease = "" if lock.lease is None else f"  lease {in_words(lock.lease)}"
    line = f"{outcome}  {painted(lock.mode)}  {lock.resource}\nid {lock.id}{token}{lease}"
    console.answer({**lock_document(lock), **beside}, lambda: line)


def _waiters(waiting: Sequence[Waiter], which: dict[str, Any]) -> list[Waiter]:
    from headgate.core.locks.parsing import parse_mode

    mode = parse_mode(which["mode"]) if which["mode"] else None
    found = [each for each in waiting if which["client"] in (None, each.client)]
    return [each for each in found if mode in (None, each.mode)]


def _listing(locks: Sequence[Lock], waiting: Sequence[Waiter]) -> str:
    if not locks and not waiting:
        return "no locks"
    rows: list[Sequence[object]] = [
        (
            each.mode,
            each.resource,
            each.client,
            ago(each.since),
            lease_words(each.expires_in),
            each.token or "-",
            each.id,
        )
        for each in locks
    ]
    rows += [("waits", each.resource, each.client, ago(each.since), f"for {each.mode}", "", "") for each in waiting]
    missing = [f"{each.id}: {each.note}" for each in locks if "[no storage guard: " in each.note]
    return "\n".join([table(HEADINGS, rows), *missing])


def _description(held: Lock) -> str:
    return pairs(
        {
            "id": held.id,
            "resource": held.resource,
            "mode": held.mode,
            "client": held.client,
            "principal": held.principal or "-",
            "token": held.token or "-",
            "since": f"{rfc3339(held.since)} ({ago(held.since)})",
            "lease": "persistent" if held.lease is None else f"{in_words(held.lease)}, {lease_words(held.expires_in)}",
            "holds": held.count,
            "process": held.owner,
            "note": held.note,
        }
    )
