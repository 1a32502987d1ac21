"""Commands for API tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import InOrder, common, tabular
from headgate.cli.terminal.output import ago, table
from headgate.cli.terminal.values import DURATION, JOB
from headgate.core.access.scopes import ROLES, SCOPES, ApiToken, SignInCode
from headgate.core.values.durations import in_words
from headgate.core.values.wire import plain
from headgate.core.values.words import suggestion

#: The default address of `headgate up`.
DEFAULT_SERVICE = "http://127.0.0.1:8750"


@click.group("token", cls=InOrder)
def token() -> None:
    """Create, list, rotate and revoke API tokens for the service.

    A token belongs to a principal, which owns the locks, claims and queue items that are acquired with it. Tokens with
    the same principal share what they hold; other principals cannot release, renew or report it.

    \b
    Examples:
      headgate token new ann --role operator --expires 90d
      headgate token new cleaner --job clean       claim and report only this job
      headgate token new nightly --scope lock:acquire:s3://bucket/
      headgate token new ann --principal nightly --scope lock:acquire
      headgate token rotate abcdefghijkl
      headgate token new ben --scope 'read:data:climate*'
      headgate token revoke abcdefghijkl
      headgate token sign-in                       print an address for a browser

    \b
    A quick look, after headgate init:
      headgate token new ann --role operator --expires 90d
      headgate token list
    """


@token.command("new", epilog="Scopes: " + ", ".join(SCOPES))
@click.argument("name")
@click.option("--role", type=click.Choice(list(ROLES)), help="Set of scopes.")
@click.option("--job", "jobs", type=JOB, multiple=True, help="Job to claim and report; can be repeated.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Scope; can be repeated, see below.")
@click.option("--expires", type=DURATION, help="Lifetime (default: no end).")
@click.option("--principal", help="Owner of everything acquired with the token (default: NAME).")
@common
def new(
    console: Console, /, name: str, role: str | None, jobs: Sequence[str], scopes: Sequence[str], **more: Any
) -> None:
    """Create an API token for NAME, and print it. It is stored nowhere and cannot be shown again."""
    wanted = [*ROLES.get(role or "", ()), *scopes]
    wanted += [f"{word}:{job}" for job in jobs for word in ("chunk:claim", "cred:read")]
    with console.gate() as gate:
        made = gate.tokens.new(name, wanted, **more)
        defined = [each.name for each in gate.ledger.jobs()] if jobs and gate.keeps_ledger else list(jobs)
    console.answer(plain(made), lambda: made.token)
    for job in set(jobs) - set(defined):
        console.say(f"headgate: note: there is no job {job!r} yet; {suggestion(job, defined)}".rstrip("; "))
    console.say("it is shown only once; give it to its user in HEADGATE_API_TOKEN, together with HEADGATE_SERVER")


@token.command("list")
@tabular
def list_tokens(console: Console) -> None:
    """List API tokens with their principals, scopes and expiry."""
    found = console.ask(lambda gate: gate.tokens.list())
    rows = [(each.id, each.name, each.principal, ", ".join(each.scopes), _until(each), _used(each)) for each in found]
    headings = ("ID", "NAME", "PRINCIPAL", "SCOPES", "ENDS", "USED")
    console.answer_list(plain(found), lambda: table(headings, rows))


@token.command("rotate", short_help="Replace a token with a new one.")
@click.argument("token_id", metavar="ID")
@click.option("--expires", type=DURATION, help="Lifetime (default: the end of the old token).")
@common
def rotate(console: Console, token_id: str, expires: float | None) -> None:
    """Replace a token with one that has a new id and secret, and the same principal and scopes.

    The old token stops working. The principal keeps what it holds.

    \b
    Example:
      headgate token rotate abcdefghijkl --expires 90d
    """
    made = console.ask(lambda gate: gate.tokens.rotate(token_id, expires=expires))
    console.answer(plain(made), lambda: made.token)
    console.say("it is shown only once; give it to its user in HEADGATE_API_TOKEN, together with HEADGATE_SERVER")


@token.command("revoke")
@click.argument("token_id", metavar="ID")
@common
def revoke(console: Console, token_id: str) -> None:
    """Revoke a token. It stops working within a second, on every service.

    What its principal holds is listed and stays held: another token of the principal can release it, an operator with
    the scope admin:force can break it or hand it over.
    """
    from headgate.service.ownership import held_by

    with console.gate() as gate:
        principal = gate.tokens.get(token_id).principal
        gate.tokens.revoke(token_id)
        held = held_by(gate.locks, gate.queue, principal)
    console.answer({"revoked": token_id, "principal": principal, "held": plain(held)}, lambda: f"revoked  {token_id}")
    if held:
        rows = [(each.noun, each.what, each.by, ago(each.since), each.id) for each in held]
        console.say(f"the principal {principal} still holds:\n{table(('NOUN', 'WHAT', 'BY', 'SINCE', 'ID'), rows)}")


@token.command("sign-in")
@click.argument("token_id", metavar="[ID]", required=False)
@click.option(
    "--at",
    metavar="URL",
    help="Address of the service for browsers (default: the setting `server`, or http://127.0.0.1:8750).",
)
@common
def sign_in(console: Console, token_id: str | None, at: str | None) -> None:
    """Print an address that signs a browser in. It works once, within 5 minutes.

    The browser gets the rights of token ID, for 12 hours at most. Without ID, that is your own token if you use a
    service, or the only token of the store.
    """
    with console.gate() as gate:
        code = gate.sessions.new_code(token_id)
        url = (at or console.settings["server"] or DEFAULT_SERVICE).rstrip("/")
    address = sign_in_address(url, code)
    console.answer({"sign_in": address, **plain(code)}, lambda: address)
    console.say(f"it signs a browser in {once_within(code)}")


def sign_in_address(url: str, code: SignInCode) -> str:
    """Return the address that signs a browser in. Browsers do not send the part after #, so no log contains it."""
    return f"{url}/sign-in#code={code.code}"


def once_within(code: SignInCode) -> str:
    """How often and for how long a code can be used."""
    return f"once, within {in_words(code.seconds)}"


def _until(token: ApiToken) -> str:
    if token.revoked:
        return "revoked"
    if token.expires_in is None:
        return "-"
    return f"in {in_words(token.expires_in)}" if token.expires_in > 0 else "ended"


def _used(token: ApiToken) -> str:
    return "never" if token.last_used is None else ago(token.last_used)
