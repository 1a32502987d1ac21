"""API tokens over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from headgate.core.access.scopes import SignInCode
from headgate.core.errors import NotAllowed
from headgate.http.api.handlers import ApiCall, Handlers
from headgate.operations import tokens
from headgate.service.ownership import held_by

handlers = Handlers(tokens.declared)


@handlers.of(tokens.revoke)
def revoke(call: ApiCall, *, token_id: str) -> tokens.Revoked:
    """With what its principal still holds."""
    gate = call.gate
    token = gate.tokens.get(token_id)
    gate.tokens.revoke(token_id)
    return tokens.Revoked(token.id, token.principal, held_by(gate.locks, gate.queue, token.principal))


@handlers.of(tokens.new_code)
def new_code(call: ApiCall) -> SignInCode:
    """Not for a signed-in browser."""
    if call.who.session:
        raise NotAllowed("a signed-in browser cannot create sign-in codes; use the API token", "the API token itself")
    return call.gate.sessions.new_code(call.who.token.id)
