"""API tokens over HTTP: what is more than a call of the service."""

from __future__ import annotations

from headgate.core.errors import NotAllowed
from headgate.core.scopes import ApiToken, SignInCode
from headgate.http.serving import Call, Handlers, page_after
from headgate.operations import tokens
from headgate.operations.declaring import Page
from headgate.service.holdings import held_by

handlers = Handlers(tokens.declared)


@handlers.of(tokens.list_tokens)
def list_tokens(call: Call, *, after: str | None, limit: int) -> Page[ApiToken]:
    """By when they were created, then by id."""
    return page_after(
        call.gate.tokens.list(), after, limit, lambda each: f"{each.created.timestamp():020.6f} {each.id}"
    )


@handlers.of(tokens.revoke)
def revoke(call: Call, *, token_id: str) -> tokens.Revoked:
    """With what its principal still holds."""
    gate = call.gate
    token = gate.tokens.get(token_id)
    gate.tokens.revoke(token_id)
    return tokens.Revoked(token.id, token.principal, held_by(gate.locks, gate.queue, token.principal))


@handlers.of(tokens.new_code)
def new_code(call: Call) -> SignInCode:
    """Not for a browser that is signed in."""
    if call.who.session:
        raise NotAllowed("a signed-in browser cannot create sign-in codes; use the API token", "the API token itself")
    return call.gate.sessions.new_code(call.who.token.id)
