"""Browser sessions and sign-in codes: random ids that the store keeps as digests, each belonging to one API token."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.core.access.scopes import SignInCode
from headgate.core.errors import BadValue, NotAllowed
from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.core.access.scopes import ApiToken
    from headgate.service.access.tokens import Tokens
    from headgate.stores.ports.tokens import SessionStore

#: How long a browser stays signed in, and how long a sign-in code can be used.
SESSION_SECONDS, CODE_SECONDS = 12 * 3600, 300
#: Number of browsers that one token can be signed in with, and of its open codes; the oldest end first.
MOST_OF_A_TOKEN = 100
_NONE = "belongs to no API token yet; create one with: headgate token new NAME --role admin"
_CODE = re.compile("hgc_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser, which has the scopes of its token."""

    token: ApiToken
    #: Its digest, which identifies it in the store.
    digest: str
    #: The value that a form has to contain, so that no other site can send it.
    form_key: str = field(repr=False)


class BrowserSessions:
    """The browser sessions of the tokens of one store."""

    def __init__(self, store: SessionStore, tokens: Tokens) -> None:
        self._store = store
        self._tokens = tokens

    def sign_in(self, text: str) -> str:
        """Start a session for the API token with this text, and return its id. NotAllowed when there is none."""
        token = self._tokens.prove(text)
        made = secrets.token_urlsafe(32)
        self._store.add("session", _digest(made), token.id, _seconds(token, SESSION_SECONDS), MOST_OF_A_TOKEN)
        event("token.signed_in", id=token.id, whose=token.name)
        return made

    def new_code(self, token_id: str | None = None) -> SignInCode:
        """Create a code that signs one browser in, once, with this token; None: with the only token.

        NotAllowed when the token has expired or was revoked.
        """
        token = self._only() if token_id is None else self._tokens.good(token_id)
        code = f"hgc_{secrets.token_urlsafe(32)}"
        seconds = _seconds(token, CODE_SECONDS)
        self._store.add("code", _digest(code), token.id, seconds, MOST_OF_A_TOKEN)
        event("token.code_made", id=token.id, whose=token.name)
        return SignInCode(code, seconds)

    def _only(self) -> ApiToken:
        good = [each for each in self._tokens.list() if each.good]
        if len(good) != 1:
            why = (
                f"is required: there are {len(good)} API tokens; list them with: headgate token list" if good else _NONE
            )
            raise BadValue("ID", "", why)
        return good[0]

    def whose(self, code: str) -> ApiToken:
        """Return the token that a code belongs to, without using the code. NotAllowed when the code is not valid."""
        found = self._store.token_of("code", _digest(code)) if is_code(code) else None
        if found is None:
            raise NotAllowed(
                "the sign-in code was used already or has expired; create another one with: headgate token sign-in"
            )
        return self._tokens.good(found)

    def redeem(self, code: str) -> str:
        """Start the session that a code is for, and return its id. NotAllowed when the code is not valid."""
        token = self.whose(code)
        made, seconds = secrets.token_urlsafe(32), _seconds(token, SESSION_SECONDS)
        if not self._store.redeem(_digest(code), _digest(made), token.id, seconds, MOST_OF_A_TOKEN):
            raise NotAllowed("the sign-in code was used just now; create another one with: headgate token sign-in")
        event("token.signed_in", id=token.id, whose=token.name, by="code")
        return made

    def find(self, given: str) -> BrowserSession:
        """Return the session with that id; NotAllowed when there is none, or it or its token has ended."""
        digest = _digest(given)
        found = self._store.token_of("session", digest)
        if found is None:
            raise NotAllowed("you are not signed in; sign in again")
        token = self._tokens.good(found)
        self._tokens.note_use(token.id)
        return BrowserSession(token, digest, hmac.new(given.encode(), b"form", "sha256").hexdigest())

    def end(self, given: str) -> None:
        """Sign a browser out: end the session with that id, if there is one."""
        self._store.end(_digest(given))

    def ended(self, digests: Collection[str]) -> set[str]:
        """Return which of these sessions have ended. The store is asked once for all of them."""
        return set(digests) - self._store.alive(digests) if digests else set()


def is_code(text: str) -> bool:
    """Whether a text has the form of a sign-in code."""
    return _CODE.fullmatch(text) is not None


def _seconds(token: ApiToken, most: float) -> float:
    """Nothing outlives its token."""
    return most if token.expires_in is None else min(most, token.expires_in)


def _digest(text: str) -> str:
    """256 random bits need no key: they cannot be guessed from their digest."""
    return hashlib.sha256(text.encode()).hexdigest()
