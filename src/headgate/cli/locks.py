"""Commands for locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.lock_run import run
from headgate.cli.output import ago, lease_words, lock_document, painted, pairs, table
from headgate.cli.session import DURATION, InOrder, Session, common, tabular
from headgate.cli.values import Word, after_option, limit_option
from headgate.cli.waiters import waiters
from headgate.core.durations import in_words
from headgate.core.errors import StoreUnavailable
from headgate.core.locks import MODE_WORDS, Mode
from headgate.core.wire import plain, rfc3339

if TYPE_CHECKING:
    from headgate.core.locks import Lock, Waiter

F = TypeVar("F", bound=Callable[..., Any])

MODE = Word("mode", tuple(Mode), tuple(MODE_WORDS))
HEADINGS = ("STATE", "RESOURCE", "CLIENT", "SINCE", "LEASE", "TOKEN", "ID")


def grant(function: F) -> F:
    """The two words that name a grant."""
    token = click.option(
        "--token", type=int, required=True, metavar="N", help="Token of the lock, as `lock acquire` printed it."
    )
    return click.argument("lock_id", metavar="ID")(token(override(function)))


def override(function: F) -> F:
    """The reason that lets an operator act on another principal's lock."""
    text = "Reason for acting on another principal's lock. Needs the scope admin:force; kept in the history."

    @wraps(function)
    def call(*args: Any, override: str | None, **more: Any) -> Any:
        from headgate.calls.actor import acting
        from headgate.core.names import check_reason
        from headgate.core.owners import Actor

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
@click.option("--client", help="Name of the client (default: the setting `client`, or user@host).")
@click.option("--mode", type=MODE, help="Mode of the lock, if RESOURCE does not name one (default: exclusive).")
@click.option("--wait", type=DURATION, default=0, help="Longest time in the wait queue (default: 0s, do not wait).")
@click.option("--lease", type=DURATION, help="Lease length: without `lock renew` the lock expires (default: no lease).")
@click.option("--note", default="", help="Remark that lists show.")
@click.option("--reentrant", is_flag=True, help="Count repeated holds of the same client instead of refusing them.")
@click.option("--request-id", help="Id of this request: repeating it returns the same lock again.")
@common
@click.pass_obj
def acquire(
    session: Session, /, resource: str, mode: str | None, client: str | None, request_id: str | None, **how: Any
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
    from headgate.core.locks import parse_want
    from headgate.service.identity import new_request_id

    resource, how["mode"] = parse_want(resource, mode)
    request_id = new_request_id() if request_id is None else request_id
    with session.gate(stay=how["lease"] is not None) as gate:
        gate.locks.must_outlive(resource)
        try:
            granted = gate.locks.acquire(session.client(client), resource, request_id=request_id, **how)
        except StoreUnavailable as error:
            error.request_id = request_id
            raise
        try:
            session.answer(lock_document(granted), lambda: f"granted  {_in_short(granted)}")
        except OSError:  # Nobody learned of it, so nobody could give it back.
            gate.locks.release(granted)
            raise
    session.say("release it with: " + session.command("lock", "release", granted.id, "--token", str(granted.token)))


@lock.command("release")
@grant
@common
@click.pass_obj
def release(session: Session, lock_id: str, token: int) -> None:
    """Release a lock.

    Fails, and changes nothing, if the lock has expired, was broken or was released already.

    \b
    Example:
      headgate lock release 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    with session.gate() as gate:
        gate.locks.release(lock_id, token)
    session.answer({"id": lock_id, "token": token, "released": True}, lambda: f"released  {lock_id}")


@lock.command("renew")
@grant
@click.option("--lease", type=DURATION, help="New lease length (default: as before).")
@common
@click.pass_obj
def renew(session: Session, lock_id: str, token: int, lease: float | None) -> None:
    """Renew the lease of a lock.

    \b
    Examples:
      headgate lock renew 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
      headgate lock renew 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12 --lease 1h
    """
    with session.gate(stay=True) as gate:
        renewed = gate.locks.renew(lock_id, token, lease=lease)
    session.answer(lock_document(renewed), lambda: f"renewed  {_in_short(renewed)}")


@lock.command("check", short_help="Check whether a lock is still held.")
@grant
@common
@click.pass_obj
def check(session: Session, lock_id: str, token: int) -> None:
    """Check whether a lock is still held: exit code 0, or 76 if it was lost.

    \b
    Example:
      headgate lock check "$ID" --token "$TOKEN" && ./publish.sh
    """
    with session.gate() as gate:
        held = gate.locks.check(lock_id, token)
    session.answer(lock_document(held), lambda: f"held  {_in_short(held)}")


@lock.command("upgrade", short_help="Change a shared lock to exclusive.")
@grant
@common
@click.pass_obj
def upgrade(session: Session, lock_id: str, token: int) -> None:
    """Change a shared lock to exclusive, and print its new token.

    Refused if other clients hold the resource. It never waits, since two readers could wait for each other forever.

    \b
    Example:
      headgate lock upgrade 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    with session.gate() as gate:
        changed = gate.locks.upgrade(lock_id, token)
    session.answer(lock_document(changed), lambda: f"upgraded  {_in_short(changed)}")


@lock.command("downgrade", short_help="Change an exclusive lock to shared.")
@grant
@common
@click.pass_obj
def downgrade(session: Session, lock_id: str, token: int) -> None:
    """Change an exclusive lock to shared in one step: no writer can get in between.

    \b
    Example:
      headgate lock downgrade 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    with session.gate() as gate:
        changed = gate.locks.downgrade(lock_id, token)
    session.answer(lock_document(changed), lambda: f"downgraded  {_in_short(changed)}")


@lock.command("hand-over", short_help="Transfer a lock to another principal.")
@click.argument("lock_id", metavar="ID")
@click.option("--to", required=True, metavar="PRINCIPAL", help="New owner.")
@click.option("--reason", default="", help="Reason, kept in the history.")
@override
@common
@click.pass_obj
def hand_over(session: Session, lock_id: str, to: str, reason: str) -> None:
    """Transfer a lock to another principal.

    You must own the lock, or give --override. The lock gets a new token, so its former owner can no longer use it.

    \b
    Example:
      headgate lock hand-over 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --to nightly
    """
    with session.gate() as gate:
        handed = gate.locks.hand_over(lock_id, to=to, reason=reason)
    # The service tells the new token to the new owner alone.
    short = _in_short(handed) if handed.token else f"{painted(handed.mode)}  {handed.resource}\nid {handed.id}"
    session.answer(lock_document(handed), lambda: f"handed over to {handed.principal}  {short}")


@lock.command("list")
@click.option("--resource", help="Only locks on exactly this resource.")
@click.option("--client", help="Only locks of this client.")
@click.option("--mode", type=MODE, help="Only locks in this mode.")
@limit_option("locks")
@after_option
@tabular
@click.pass_obj
def list_locks(session: Session, /, limit: int, **which: Any) -> None:
    """List locks and the clients that wait for them.

    \b
    Examples:
      headgate lock list
      headgate lock list --resource mysql://db1/core
      headgate lock list --client copy-core --mode exclusive --json
    """
    with session.gate() as gate:
        found = list(gate.locks.list(limit=limit + 1, **which))
        waiting = [] if which["after"] else _waiters(gate.locks.waiters(which["resource"]), which)
    shown = found[:limit]
    more = shown[-1].id if len(found) > limit else None
    documents = map(lock_document, shown)
    session.answer_list(documents, lambda: _listing(shown, waiting), more=more, waiting=plain(waiting))


@lock.command("show")
@click.argument("lock_id", metavar="ID")
@common
@click.pass_obj
def show(session: Session, lock_id: str) -> None:
    """Show one lock.

    \b
    Example:
      headgate lock show 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w
    """
    with session.gate() as gate:
        found = gate.locks.get(lock_id)
    session.answer(lock_document(found), lambda: _description(found))


@lock.command("break", short_help="Break a lock that another client holds.")
@click.argument("lock_id", metavar="ID")
@click.option("--reason", required=True, help="Reason, kept in the history.")
@common
@click.pass_obj
def break_lock(session: Session, lock_id: str, reason: str) -> None:
    """Break a lock that another client holds: its token becomes stale.

    The holder learns of it at its next call; `lock run` then stops its command. Make sure that the holder no longer
    works on the resource before another client acquires it.

    \b
    Example:
      headgate lock break 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --reason "db3 died"
    """
    with session.gate() as gate:
        broken = gate.locks.break_lock(lock_id, reason=reason, by=session.client())
    session.answer({**lock_document(broken), "reason": reason}, lambda: f"broken  {_in_short(broken)}")


def _in_short(held: Lock) -> str:
    lease = "" if held.lease is None else f"  lease {in_words(held.lease)}"
    return f"{painted(held.mode)}  {held.resource}\nid {held.id}  token {held.token}{lease}"


def _waiters(waiting: Sequence[Waiter], which: dict[str, Any]) -> list[Waiter]:
    from headgate.core.locks import parse_mode

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
