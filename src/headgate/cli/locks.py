"""Commands for locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.lock_run import run
from headgate.cli.output import ago, lease_words, lock_document, painted, pairs, table
from headgate.cli.session import DURATION, InOrder, Session, common
from headgate.cli.waiters import waiters
from headgate.core.durations import in_words
from headgate.core.errors import StoreUnavailable
from headgate.core.wire import plain, rfc3339

if TYPE_CHECKING:
    from headgate.core.locks import Lock, Waiter

F = TypeVar("F", bound=Callable[..., Any])

HEADINGS = ("STATE", "RESOURCE", "CLIENT", "SINCE", "LEASE", "TOKEN", "ID")


def grant(function: F) -> F:
    """The two words that name a grant."""
    token = click.option("--token", type=int, required=True, metavar="N", help="The token that the grant carries.")
    return click.argument("lock_id", metavar="ID")(token(override(function)))


def override(function: F) -> F:
    """The reason that lets an operator act on another principal's lock."""
    text = "Why you act on another principal's lock; takes the scope admin:force, and is kept in the history."

    @wraps(function)
    def call(*args: Any, override: str | None, **more: Any) -> Any:
        from headgate.core.names import check_reason
        from headgate.core.owners import Actor
        from headgate.stores.acting import acting

        with acting(Actor(override="" if override is None else check_reason(override))):
            return function(*args, **more)

    return click.option("--override", metavar="REASON", help=text)(call)  # type: ignore[return-value] # the same kind


@click.group("lock", cls=InOrder)
def lock() -> None:
    """Take, renew, give back, list and break locks; run commands under them.

    \b
    Examples:
      headgate lock run mysql://db1/core -- ./copy.sh
      headgate lock acquire mysql://db1/core --client copy-core --wait 5m
      headgate lock list

    \b
    A quick look, in a new folder:
      headgate lock run file:/data/x -- echo "nobody else has it"
      headgate lock acquire file:/data/x --client me --mode shared --lease 10m
      headgate lock list
      headgate history --resource file:/data/x
    """


lock.add_command(run)
lock.add_command(waiters)


@lock.command("acquire")
@click.argument("resource", metavar="RESOURCE[=MODE]")
@click.option("--client", help="Who asks.  [default: the setting `client`, else user@host]")
@click.option("--mode", help="shared (read) or exclusive (write).")
@click.option("--wait", type=DURATION, default=0, help="Queue for up to this long instead of being refused.")
@click.option("--lease", type=DURATION, help="Let it end by itself unless renewed in time; else it stays.")
@click.option("--note", default="", help="Why, for people who look at the list.")
@click.option("--reentrant", is_flag=True, help="Count holds of the same client instead of refusing them.")
@click.option("--request-id", help="Your id of this request: repeating it gives the same grant again.")
@common
@click.pass_obj
def acquire(
    session: Session, /, resource: str, mode: str | None, client: str | None, request_id: str | None, **how: Any
) -> None:
    """Take a lock on RESOURCE, and print its id and token.

    The lock outlives this command. It stays until `lock release`, or with --lease until that time has passed
    without `lock renew`. To hold a lock while a program runs, use `lock run` instead.

    \b
    Examples:
      headgate lock acquire mysql://db1/core --client copy-core
      headgate lock acquire file:/data/x --mode shared --wait 5m
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
    session.say("give it back with: " + session.command("lock", "release", granted.id, "--token", str(granted.token)))


@lock.command("release")
@grant
@common
@click.pass_obj
def release(session: Session, lock_id: str, token: int) -> None:
    """Give a lock back.

    A lock that is not yours any more is an error, and nothing changes.

    \b
    Example:
      headgate lock release 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    with session.gate() as gate:
        gate.locks.release(lock_id, token)
    session.answer({"id": lock_id, "token": token, "released": True}, lambda: f"released  {lock_id}")


@lock.command("renew")
@grant
@click.option("--lease", type=DURATION, help="A new length for the lease, from now on.")
@common
@click.pass_obj
def renew(session: Session, lock_id: str, token: int, lease: float | None) -> None:
    """Let a lock's lease begin anew.

    \b
    Examples:
      headgate lock renew 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
      headgate lock renew 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12 --lease 1h
    """
    with session.gate(stay=True) as gate:
        renewed = gate.locks.renew(lock_id, token, lease=lease)
    session.answer(lock_document(renewed), lambda: f"renewed  {_in_short(renewed)}")


@lock.command("check", short_help="Ask whether a lock is still yours.")
@grant
@common
@click.pass_obj
def check(session: Session, lock_id: str, token: int) -> None:
    """Ask whether a lock is still yours: exit code 0, or 76 when it is not.

    \b
    Example:
      headgate lock check "$ID" --token "$TOKEN" && ./publish.sh
    """
    with session.gate() as gate:
        held = gate.locks.check(lock_id, token)
    session.answer(lock_document(held), lambda: f"held  {_in_short(held)}")


@lock.command("upgrade", short_help="Make a shared lock exclusive, if nobody else reads.")
@grant
@common
@click.pass_obj
def upgrade(session: Session, lock_id: str, token: int) -> None:
    """Make a shared lock exclusive, if nobody else reads; it has a new token then.

    It never waits: two readers who wait for each other would wait for ever.

    \b
    Example:
      headgate lock upgrade 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    with session.gate() as gate:
        changed = gate.locks.upgrade(lock_id, token)
    session.answer(lock_document(changed), lambda: f"upgraded  {_in_short(changed)}")


@lock.command("downgrade", short_help="Make an exclusive lock shared, in one step.")
@grant
@common
@click.pass_obj
def downgrade(session: Session, lock_id: str, token: int) -> None:
    """Make an exclusive lock shared, in one step: nobody can write in between.

    \b
    Example:
      headgate lock downgrade 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --token 12
    """
    with session.gate() as gate:
        changed = gate.locks.downgrade(lock_id, token)
    session.answer(lock_document(changed), lambda: f"downgraded  {_in_short(changed)}")


@lock.command("hand-over", short_help="Let a lock belong to another principal.")
@click.argument("lock_id", metavar="ID")
@click.option("--to", required=True, metavar="PRINCIPAL", help="The new owner.")
@click.option("--reason", default="", help="Why; kept in the history.")
@override
@common
@click.pass_obj
def hand_over(session: Session, lock_id: str, to: str, reason: str) -> None:
    """Let a lock belong to another principal: yours, or with --override anybody's.

    It has a new token from then on, so that the holder before cannot use it any more.

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
@click.option("--mode", help="Only shared, or only exclusive ones.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many.")
@click.option("--after", metavar="ID", help="Only locks after this one: the next page.")
@common
@click.pass_obj
def list_locks(session: Session, /, limit: int, **which: Any) -> None:
    """Show who has what, and who waits.

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
    document = {"locks": [lock_document(each) for each in shown], "waiting": plain(waiting), "next": more}
    session.answer(document, lambda: _listing(shown, waiting))
    if more:
        session.say(f"there are more; go on with: --after {more}")


@lock.command("show")
@click.argument("lock_id", metavar="ID")
@common
@click.pass_obj
def show(session: Session, lock_id: str) -> None:
    """Show all about one lock.

    \b
    Example:
      headgate lock show 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w
    """
    with session.gate() as gate:
        found = gate.locks.get(lock_id)
    session.answer(lock_document(found), lambda: _description(found))


@lock.command("break", short_help="Take somebody's lock away, with a reason.")
@click.argument("lock_id", metavar="ID")
@click.option("--reason", required=True, help="Why; kept in the history.")
@common
@click.pass_obj
def break_lock(session: Session, lock_id: str, reason: str) -> None:
    """Take somebody's lock away: its token is stale from now on, and the reason is kept.

    The holder is told when it next asks; a program under `lock run` is ended then. Make sure that it no longer
    works on the resource before you let somebody else in.

    \b
    Example:
      headgate lock break 7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb3w --reason "host db3 is gone for good"
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
