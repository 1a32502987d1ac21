"""Commands for API tokens: who may ask the service for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headgate.cli.output import ago, table
from headgate.cli.session import DURATION, InOrder, Session, common
from headgate.core.durations import in_words
from headgate.core.scopes import ROLES, SCOPES, ApiToken
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.service.sessions import SignInCode


#: Where `headgate up` listens by itself.
DEFAULT_SERVICE = "http://127.0.0.1:8750"


@click.group("token", cls=InOrder)
def token() -> None:
    """Make, list and revoke the API tokens that open the service.

    \b
    Examples:
      headgate token new ann --role operator --expires 90d
      headgate token new cleaner --job clean                       claims and reports that job, nothing else
      headgate token new nightly --scope lock:acquire:s3://bucket/
      headgate token revoke abcdefghijkl
      headgate token sign-in                                       an address that signs a browser in, once

    \b
    A quick look, in a new folder:
      headgate token new ann --role operator --expires 90d
      headgate token list
    """


@token.command("new", epilog="Scopes: " + ", ".join(SCOPES))
@click.argument("name")
@click.option("--role", type=click.Choice(list(ROLES)), help="A usual set of scopes.")
@click.option("--job", "jobs", multiple=True, help="Claim and report this job, and read its sealed secrets.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="One scope more; some take :NAME.")
@click.option("--expires", type=DURATION, help="It ends after this time.")
@common
@click.pass_obj
def new(
    session: Session, name: str, role: str | None, jobs: Sequence[str], scopes: Sequence[str], expires: float | None
) -> None:
    """Make an API token for NAME, and show it once: it is kept nowhere."""
    wanted = [*ROLES.get(role or "", ()), *scopes]
    wanted += [f"{word}:{job}" for job in jobs for word in ("chunk:claim", "cred:read")]
    with session.gate() as gate:
        made = gate.tokens.new(name, wanted, expires=expires)
    session.answer(plain(made), lambda: made.token)
    session.say("it is shown this once; give it to its user in HEADGATE_API_TOKEN")


@token.command("list")
@common
@click.pass_obj
def list_tokens(session: Session) -> None:
    """List the tokens: whose, for what, until when."""
    with session.gate() as gate:
        found = gate.tokens.list()
    rows = [(each.id, each.name, ", ".join(each.scopes), _until(each), _used(each)) for each in found]
    session.answer({"tokens": plain(found)}, lambda: table(("ID", "NAME", "SCOPES", "ENDS", "USED"), rows))


@token.command("revoke")
@click.argument("token_id", metavar="ID")
@common
@click.pass_obj
def revoke(session: Session, token_id: str) -> None:
    """End a token at once: within a second it opens nothing any more, on every service."""
    with session.gate() as gate:
        gate.tokens.revoke(token_id)
    session.answer({"revoked": token_id}, lambda: f"revoked  {token_id}")


@token.command("sign-in")
@click.argument("token_id", metavar="[ID]", required=False)
@click.option(
    "--at", metavar="URL", help="Where browsers reach the service (default: server, or http://127.0.0.1:8750)."
)
@common
@click.pass_obj
def sign_in(session: Session, token_id: str | None, at: str | None) -> None:
    """Print an address that signs a browser in, once and within 5 minutes.

    It signs in with the token ID; without ID through a service with the caller's own token, on a store with the only
    one there is. The browser asks before it signs in, and may then do what the token may, for 12 hours at most.
    """
    with session.gate() as gate:
        code = gate.sessions.new_code(token_id)
        url = (at or session.settings["server"] or DEFAULT_SERVICE).rstrip("/")
    address = sign_in_address(url, code)
    session.answer({"sign_in": address, **plain(code)}, lambda: address)
    session.say(f"it signs a browser in {once_within(code)}")


def sign_in_address(url: str, code: SignInCode) -> str:
    """Where a browser is signed in. What follows the # is not sent to the service, and so stands in no log of it."""
    return f"{url}/sign-in#code={code.code}"


def once_within(code: SignInCode) -> str:
    """How often and how long a code can be used."""
    return f"once, within {in_words(code.seconds)}"


def _until(token: ApiToken) -> str:
    if token.revoked:
        return "revoked"
    if token.expires_in is None:
        return "-"
    return f"in {in_words(token.expires_in)}" if token.expires_in > 0 else "ended"


def _used(token: ApiToken) -> str:
    return "never" if token.last_used is None else ago(token.last_used)
