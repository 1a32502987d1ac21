"""API tokens and browser sessions of a service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headgate.client.sending import ServicePart, remote, same_as, send
from headgate.core.access.scopes import ApiToken, SignInCode, check_scopes
from headgate.core.errors import BadValue
from headgate.operations import tokens
from headgate.service.access.sessions import BrowserSessions
from headgate.service.access.tokens import Tokens


@remote("tokens", tokens.declared)
class ServiceTokens(ServicePart, Tokens):
    """The tokens of the store behind a service."""

    @same_as(Tokens.new)
    def new(self, *, scopes: Iterable[str], **asked: Any) -> Any:
        return send(self.connection, tokens.new, scopes=check_scopes(scopes), **asked)

    def expiring(self, within: float) -> Sequence[ApiToken]:
        """List tokens that expire soon, by the setting of the service."""
        del within
        found: Sequence[ApiToken] = send(self.connection, tokens.expiring)
        return found

    def recall(self, text: str) -> ApiToken | None:
        del text
        return None

    def prove(self, text: str) -> ApiToken:
        del text
        raise BadValue(
            "server", self.connection.name, ("is verified by the service itself, and cannot be verified through it")
        )


class ServiceSessions(ServicePart, BrowserSessions):
    """Browser sessions of a service."""

    def new_code(self, token_id: str | None = None) -> SignInCode:
        if token_id is not None:
            raise BadValue("ID", token_id, "is not needed: the service creates codes for the API token of the caller")
        found: SignInCode = send(self.connection, tokens.new_code)
        return found
