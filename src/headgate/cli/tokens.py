"""Commands for API tokens: who may ask the service for what."""

from __future__ import annotations

from collections.abc import Sequence

import click

from headgate.cli.output import ago, table
from headgate.cli.session import DURATION, InOrder, Session, common
from headgate.core.durations import in_words
from headgate.core.scopes import ROLES, SCOPES, ApiToken
from headgate.core.wire import plain


@click.group("token", cls=InOrder)
def token() -> None:
    """Make, list and revoke the API tokens that open the service.

    \b
    Examples:
      headgate token new ann --role operator --expires 90d
      headgate token new cleaner --job clean                       claims and reports that job, nothing else
      headgate token new nightly --scope lock:acquire:s3://bucket/
      headgate token revoke abcdefghijkl

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


def _until(token: ApiToken) -> str:
    if token.revoked:
        return "revoked"
    if token.expires_in is None:
        return "-"
    return f"in {in_words(token.expires_in)}" if token.expires_in > 0 else "ended"


def _used(token: ApiToken) -> str:
    return "never" if token.last_used is None else ago(token.last_used)
