"""API tokens: made, shown once, proven, revoked. The store keeps a keyed digest alone."""

from __future__ import annotations

import hmac
import re
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.core.errors import NotAllowed, UnknownName
from headgate.core.names import check_name
from headgate.core.scopes import ApiToken, check_scopes
from headgate.service.checks import check_span
from headgate.service.clock import steady
from headgate.stores.idempotency import answering
from headgate.telemetry import event

_FORM = re.compile("hg_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
#: How long a proven token is taken without asking the store; a revoked one ends within it.
REMEMBERED_SECONDS = 1.0
#: How exactly the last use is kept.
LAST_USE_SECONDS = 60.0
MOST_REMEMBERED = 1000
#: How long a browser stays signed in.
SESSION_SECONDS = 12 * 3600


class TokenStore(Protocol):
    """Where tokens are kept."""

    def token_key(self) -> bytes:
        """What digests of tokens are keyed with: this store's own, made at first use."""

    def add_token(self, token_id: str, name: str, scopes: Sequence[str], seconds: float | None, digest: str) -> None:
        """One more."""

    def token(self, token_id: str) -> tuple[ApiToken, str] | None:
        """A token and its digest."""

    def tokens(self) -> Sequence[ApiToken]:
        """All tokens, oldest first."""

    def revoke_token(self, token_id: str) -> bool:
        """It opens nothing any more. False: there is none."""

    def use_token(self, token_id: str) -> None:
        """It was used just now."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made."""

    id: str
    name: str
    scopes: tuple[str, ...]
    #: To be handed to its user; kept nowhere.
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that was signed in by a token, and may do what the token may."""

    token: ApiToken
    #: What a form has to carry, so that no other site can send it.
    form_key: str = field(repr=False)


class Tokens:
    """The tokens of one store."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        self._key: bytes | None = None
        self._proven: dict[str, tuple[float, ApiToken]] = {}
        self._used: dict[str, float] = {}
        self._guard = threading.Lock()

    def new(self, name: str, scopes: Iterable[str], *, expires: float | None = None) -> NewToken:
        """A token, told once and kept nowhere. `expires`: seconds until it ends."""
        check_name("name", name)
        chosen = check_scopes(scopes)
        public = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(12))
        text = f"hg_{public}_{secrets.token_urlsafe(32)}"
        seconds = None if expires is None else check_span("expires", expires)
        self._store.add_token(public, name, chosen, seconds, self._digest(text))
        event("token.made", id=public, whose=name, scopes=chosen)
        return NewToken(public, name, chosen, text)

    def list(self) -> Sequence[ApiToken]:
        """All tokens, oldest first; what opens the service is not among it."""
        return self._store.tokens()

    def revoke(self, token_id: str) -> None:
        """It opens nothing any more."""
        if not self._store.revoke_token(token_id):
            raise UnknownName("API token", token_id, "See: headgate token list")
        with self._guard:
            self._proven.clear()
        event("token.revoked", id=token_id)

    def prove(self, text: str) -> ApiToken:
        """The token that this text is; NotAllowed when it is none that is good."""
        found = _FORM.fullmatch(text)
        if not found:
            raise NotAllowed("the API token is not of the form hg_…_…; see: headgate token new")
        digest = self._digest(text)
        token = self._looked_up(found[1], digest, digest)
        self._tell_use(token.id)
        return token

    def recall(self, text: str) -> ApiToken | None:
        """The token, if it was proven a moment ago. Asks no store."""
        if self._key is None:
            return None
        return self._remembered(self._digest(text))

    def ended(self, ids: Iterable[str]) -> set[str]:
        """Return which of these tokens are revoked, expired or unknown. Asks the store once for all of them."""
        good = {each.id for each in self._store.tokens() if each.good}
        return set(ids) - good

    def sign_in(self, text: str) -> str:
        """A session of the token that this text is, signed: kept nowhere, and over when the token is."""
        token = self.prove(text)
        content = f"{token.id}.{int(time.time()) + SESSION_SECONDS}.{secrets.token_urlsafe(18)}"
        event("token.signed_in", id=token.id, whose=token.name)
        return f"{content}.{self._digest(f'session {content}')}"

    def session(self, signed: str) -> Session:
        """The session that was signed so; NotAllowed when it is none, or over."""
        content, _, signature = signed.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._digest(f"session {content}").encode()):
            raise NotAllowed("nobody is signed in here")
        public, ends, _nonce = content.split(".")
        if int(ends) < time.time():
            raise NotAllowed("the session is over; sign in again")
        place = f"session {signature}"
        token = self._remembered(place) or self._looked_up(public, None, place)
        self._tell_use(token.id)
        return Session(token, self._digest(f"form {content}"))

    def _looked_up(self, public: str, digest: str | None, place: str) -> ApiToken:
        """The good token of that id; with a digest, if it is its own. Remembered for a moment."""
        found = self._store.token(public)
        if found is None or (digest is not None and not hmac.compare_digest(found[1], digest)):
            raise NotAllowed("there is no such API token; see: headgate token list")
        if not found[0].good:
            raise NotAllowed(f"the API token {public} of {found[0].name} has ended; ask for another one")
        with self._guard:
            if len(self._proven) >= MOST_REMEMBERED:
                self._proven.clear()
            self._proven[place] = (steady() + REMEMBERED_SECONDS, found[0])
        return found[0]

    def _remembered(self, place: str) -> ApiToken | None:
        until, token = self._proven.get(place, (0.0, None))
        return token if until > steady() else None

    def _tell_use(self, token_id: str) -> None:
        now = steady()
        if self._used.get(token_id, -LAST_USE_SECONDS) + LAST_USE_SECONDS <= now:
            self._used[token_id] = now
            with answering(None):  # It is not what the request asks for.
                self._store.use_token(token_id)

    def _digest(self, text: str) -> str:
        if self._key is None:
            self._key = self._store.token_key()
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()
