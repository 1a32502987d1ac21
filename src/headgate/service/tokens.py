"""API tokens: made, shown once, proven, revoked. The store keeps a salted digest alone."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.core.durations import in_words
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
#: The salt and the digest by which a store knows a token, in hex.
Proof = tuple[str, str]


class TokenStore(Protocol):
    """Where tokens are kept."""

    def add_token(self, token_id: str, name: str, scopes: Sequence[str], seconds: float | None, proof: Proof) -> None:
        """One more."""

    def token(self, token_id: str) -> tuple[ApiToken, Proof] | None:
        """A token and what proves it."""

    def tokens(self) -> Sequence[ApiToken]:
        """All tokens, oldest first."""

    def revoke_token(self, token_id: str) -> bool:
        """It opens nothing any more, and its browser sessions end. False: there is none."""

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


class Tokens:
    """The tokens of one store."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store
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
        salt = secrets.token_hex(16)
        self._store.add_token(public, name, chosen, seconds, (salt, _digest(salt, text)))
        event("token.made", id=public, whose=name, scopes=chosen)
        return NewToken(public, name, chosen, text)

    def list(self) -> Sequence[ApiToken]:
        """All tokens, oldest first; what opens the service is not among it."""
        return self._store.tokens()

    def expiring(self, within: float) -> Sequence[ApiToken]:
        """Return the tokens that still open something and end within so many seconds, the earliest first."""
        ending = [(each.expires_in, each.id, each) for each in self._store.tokens() if each.good and each.expires_in]
        return [token for seconds, _, token in sorted(ending) if seconds <= within]

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
        token = self.good(found[1], text)
        with self._guard:
            if len(self._proven) >= MOST_REMEMBERED:
                self._proven.clear()
            self._proven[_place(text)] = (steady() + REMEMBERED_SECONDS, token)
        self.note_use(token.id)
        return token

    def recall(self, text: str) -> ApiToken | None:
        """The token, if it was proven a moment ago. Asks no store."""
        until, token = self._proven.get(_place(text), (0.0, None))
        return token if until > steady() else None

    def ended(self, ids: Iterable[str]) -> set[str]:
        """Return which of these tokens are revoked, expired or unknown. Asks the store once for all of them."""
        good = {each.id for each in self._store.tokens() if each.good}
        return set(ids) - good

    def good(self, token_id: str, text: str | None = None) -> ApiToken:
        """Return the token of that id; with a text, if that is the token. NotAllowed when there is none, or it has
        ended.
        """
        found = self._store.token(token_id)
        if found is None or (text is not None and not hmac.compare_digest(found[1][1], _digest(found[1][0], text))):
            raise NotAllowed("there is no such API token; see: headgate token list")
        if not found[0].good:
            raise NotAllowed(f"the API token {token_id} of {found[0].name} has ended; ask for another one")
        return found[0]

    def note_use(self, token_id: str) -> None:
        """Record that a token was used, once a minute."""
        now = steady()
        if self._used.get(token_id, -LAST_USE_SECONDS) + LAST_USE_SECONDS <= now:
            self._used[token_id] = now
            with answering(None):  # It is not what the request asks for.
                self._store.use_token(token_id)


def expiry_note(token: ApiToken) -> str:
    """Say when a token ends, for people."""
    return f"API token {token.id} of {token.name} expires in {in_words(token.expires_in or 0)}"


def _digest(salt: str, text: str) -> str:
    return hmac.new(bytes.fromhex(salt), text.encode(), "sha256").hexdigest()


def _place(text: str) -> str:
    """Where a proven token is remembered: its text is kept nowhere."""
    return hashlib.sha256(text.encode()).hexdigest()
