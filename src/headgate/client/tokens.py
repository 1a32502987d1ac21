"""API tokens of a service, asked for over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.client.connection import Connection
from headgate.client.sending import send
from headgate.core.errors import BadValue
from headgate.core.scopes import ApiToken, NewToken, SignInCode, check_scopes
from headgate.operations import tokens
from headgate.service.sessions import Sessions
from headgate.service.tokens import Tokens


class ServiceTokens(Tokens):
    """The tokens of the store behind a service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def new(
        self, name: str, scopes: Iterable[str], *, expires: float | None = None, principal: str | None = None
    ) -> NewToken:
        asked = {"name": name, "scopes": check_scopes(scopes), "expires": expires, "principal": principal}
        found: NewToken = send(self._connection, tokens.new, **asked)
        return found

    def rotate(self, token_id: str, *, expires: float | None = None) -> NewToken:
        found: NewToken = send(self._connection, tokens.rotate, token_id=token_id, expires=expires)
        return found

    def list(self) -> Sequence[ApiToken]:
        found: Sequence[ApiToken] = send(self._connection, tokens.list_tokens)
        return found

    def expiring(self, within: float) -> Sequence[ApiToken]:
        """Those that end soon by the service's own setting."""
        del within
        found: Sequence[ApiToken] = send(self._connection, tokens.expiring)
        return found

    def revoke(self, token_id: str) -> None:
        send(self._connection, tokens.revoke, token_id=token_id)

    def recall(self, text: str) -> ApiToken | None:
        del text
        return None

    def prove(self, text: str) -> ApiToken:
        del text
        raise BadValue(
            "server", self._connection.name, ("is verified by the service itself, and cannot be verified through it")
        )


class ServiceSessions(Sessions):
    """The browsers that are signed in at a service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def new_code(self, token_id: str | None = None) -> SignInCode:
        if token_id is not None:
            raise BadValue("ID", token_id, "is not needed: the service creates codes for the API token of the caller")
        found: SignInCode = send(self._connection, tokens.new_code)
        return found
