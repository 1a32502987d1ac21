"""API tokens, and codes that sign browsers in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from headgate.core.access.owners import Holding
from headgate.core.access.scopes import SCOPES, ApiToken, NewToken, SignInCode
from headgate.core.errors import BadValue, NotAllowed, UnknownName
from headgate.operations.arguments import USUAL, After, Limit
from headgate.operations.declaring import About, Declarations, Idempotency, Page

declared = Declarations("tokens")
SHOWN_ONCE = "The token, shown only once."


@dataclass(frozen=True, slots=True)
class Revoked:
    """A token that was revoked."""

    id: str
    #: Owner of everything acquired with it.
    principal: str
    #: What the principal still holds.
    held: Sequence[Holding]


@declared.get("/tokens", "admin", answer="Oldest first.", call="tokens.list", whole=True, cursor="created id")
def list_tokens(after: After = None, limit: Limit = USUAL) -> Page[ApiToken]:
    """List API tokens, without their secrets."""


@declared.get("/tokens/expiring", "read", answer="Earliest first.", call="expiring_tokens")
def expiring() -> Page[ApiToken]:
    """List API tokens that expire soon, by the setting `token_warning`."""


@declared.post("/tokens", "admin", repeat=Idempotency.SECRET, status=201, answer=SHOWN_ONCE, errors=(BadValue,))
def new(
    name: str,
    scopes: list[str],
    expires: Annotated[float | None, About("Seconds until it expires.", gt=0)] = None,
    principal: Annotated[str | None, About("Owner of everything acquired with it (default: the name).")] = None,
) -> NewToken:
    """Create an API token. It is shown once and stored nowhere."""


@declared.post(
    "/tokens/{token_id}/rotate", "admin", repeat=Idempotency.SECRET, status=201, answer=SHOWN_ONCE,
    errors=(UnknownName,),
)  # fmt: skip
def rotate(
    token_id: str,
    expires: Annotated[
        float | None, About("Seconds until it expires (default: when the old one would have expired).", gt=0)
    ] = None,
) -> NewToken:
    """Replace a token by a new one with the same principal and scopes. The old one is revoked."""


@declared.delete("/tokens/{token_id}", "admin", answer="What its principal still holds.", errors=(UnknownName,))
def revoke(token_id: str) -> Revoked:
    """Revoke a token. Its principal keeps the locks, claims and items it holds, which are listed."""


@declared.post(
    "/sign-in-codes", *SCOPES, repeat=Idempotency.SAFE, status=201, answer="The code, shown only once.",
    errors=(NotAllowed,),
)  # fmt: skip
def new_code() -> SignInCode:
    """Create a code that signs one browser in, once and within 5 minutes, with the API token of the caller.

    A signed-in browser cannot create one: such a session would outlive its sign-out.
    """
