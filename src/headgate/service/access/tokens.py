"""API tokens: created, shown once, verified, revoked. The store keeps only a salted digest."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterable, Sequence

from headgate.calls.idempotency import answering
from headgate.core.access.principals import check_principal
from headgate.core.access.scopes import ApiToken, NewToken, TokenToMake, check_scopes
from headgate.core.errors import BadValue, NotAllowed, UnknownName
from headgate.core.values.durations import in_words
from headgate.core.values.names import check_name
from headgate.service.checks import check_span
from headgate.service.leases.clock import steady
from headgate.stores.ports.tokens import Proof, TokenStore
from headgate.telemetry import event

_FORM = re.compile("hg_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
#: How long a verified token is accepted without asking the store; a revoked one stops working within this time.
REMEMBERED_SECONDS = 1.0
#: The accuracy of the last use.
LAST_USE_SECONDS = 60.0
MOST_REMEMBERED = 1000
#: The command that creates one.
CREATE = "headgate token new NAME --role operator (or --job JOB, --scope SCOPE)"


class Tokens:
    """API tokens of one store; `gate.tokens`.

    :param token_id: Id of the token, the part between `hg_` and the second underscore.
    """

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        self._proven: dict[str, tuple[float, ApiToken]] = {}
        self._used: dict[str, float] = {}
        self._guard = threading.Lock()

    def new(
        self, name: str, scopes: Iterable[str], *, expires: float | None = None, principal: str | None = None
    ) -> NewToken:
        """Create a token and return it. Its text is shown here only: the store keeps a digest.

        :param name: Display name of the token.
        :param scopes: Its scopes, such as `read` or `lock:acquire`.
        :param expires: Seconds until it expires; None: never.
        :param principal: Owner of everything acquired with it (default: `name`).
        """
        check_name("name", name)
        chosen = check_scopes(scopes)
        public, text = _new_text()
        owner = _own_principal(name, public) if principal is None else check_principal(principal)
        seconds = None if expires is None else check_span("expires", expires)
        self._store.add_token(TokenToMake(public, name, chosen, owner, seconds), _proof(text))
        event("token.made", id=public, whose=name, scopes=chosen, principal=owner)
        return NewToken(public, name, chosen, text, owner)

    def rotate(self, token_id: str, *, expires: float | None = None) -> NewToken:
        """Replace a token by a new one with the same principal and scopes, and return that. The old one is revoked.

        :param expires: Seconds until the new one expires (default: when the old one would have expired).
        """
        found = self._store.token(token_id)
        if found is None or found[0].revoked:
            raise UnknownName("API token", token_id, "List them with: headgate token list")
        old = found[0]
        if not old.good and expires is None:
            raise BadValue("token", token_id, "has expired; set when the new one expires")
        public, text = _new_text()
        seconds = None if expires is None else check_span("expires", expires)
        if not self._store.rotate_token(token_id, public, seconds, _proof(text)):
            raise UnknownName("API token", token_id, "List them with: headgate token list")
        with self._guard:
            self._proven.clear()
        event("token.rotated", id=token_id, new=public, whose=old.name, principal=old.principal)
        return NewToken(public, old.name, old.scopes, text, old.principal)

    def list(self) -> Sequence[ApiToken]:
        """List tokens, oldest first, without their texts."""
        return self._store.tokens()

    def expiring(self, within: float) -> Sequence[ApiToken]:
        """List valid tokens that expire soon, earliest first.

        :param within: Seconds within which they expire.
        """
        ending = [(each.expires_in, each.id, each) for each in self._store.tokens() if each.good and each.expires_in]
        return [token for seconds, _, token in sorted(ending) if seconds <= within]

    def get(self, token_id: str) -> ApiToken:
        """Return one token. Raises UnknownName if there is none."""
        for each in self.list():
            if each.id == token_id:
                return each
        raise UnknownName("API token", token_id, "List them with: headgate token list")

    def revoke(self, token_id: str) -> None:
        """Revoke a token. Raises UnknownName if there is none."""
        if not self._store.revoke_token(token_id):
            raise UnknownName("API token", token_id, "List them with: headgate token list")
        with self._guard:
            self._proven.clear()
        event("token.revoked", id=token_id)

    def prove(self, text: str) -> ApiToken:
        """Return the token with this text. Raises NotAllowed if it is unknown, revoked or expired."""
        found = _FORM.fullmatch(text)
        if not found:
            raise NotAllowed(
                f"the API token (HEADGATE_API_TOKEN) does not have the form hg_…_…; create one with: {CREATE}"
            )
        token = self.good(found[1], text)
        with self._guard:
            if len(self._proven) >= MOST_REMEMBERED:
                self._proven.clear()
            self._proven[_place(text)] = (steady() + REMEMBERED_SECONDS, token)
        self.note_use(token.id)
        return token

    def recall(self, text: str) -> ApiToken | None:
        """Return the token if it was verified a moment ago, without asking the store."""
        until, token = self._proven.get(_place(text), (0.0, None))
        return token if until > steady() else None

    def ended(self, ids: Iterable[str]) -> set[str]:
        """Return which of these tokens are revoked, expired or unknown. The store is asked once."""
        good = {each.id for each in self._store.tokens() if each.good}
        return set(ids) - good

    def good(self, token_id: str, text: str | None = None) -> ApiToken:
        """Return the token with this id, and with this text if one is given. Raises NotAllowed if it is not valid."""
        found = self._store.token(token_id)
        if found is None or (text is not None and not hmac.compare_digest(found[1][1], _digest(found[1][0], text))):
            raise NotAllowed(
                "the API token (HEADGATE_API_TOKEN) is unknown; list tokens with: headgate token list, or create one "
                f"with: {CREATE}"
            )
        if not found[0].good:
            why = "was revoked" if found[0].revoked else "has expired"
            raise NotAllowed(
                f"the API token {token_id} of {found[0].name} {why}; create another one with: {CREATE}, "
                "and set it in HEADGATE_API_TOKEN"
            )
        return found[0]

    def note_use(self, token_id: str) -> None:
        """Record that a token was used, once a minute."""
        now = steady()
        if self._used.get(token_id, -LAST_USE_SECONDS) + LAST_USE_SECONDS <= now:
            self._used[token_id] = now
            with answering(None):  # It is not the subject of the request.
                self._store.use_token(token_id)


def expiry_note(token: ApiToken) -> str:
    """Return a sentence that says when a token expires."""
    return f"API token {token.id} of {token.name} expires in {in_words(token.expires_in or 0)}"


def _digest(salt: str, text: str) -> str:
    return hmac.new(bytes.fromhex(salt), text.encode(), "sha256").hexdigest()


def _place(text: str) -> str:
    """Return the key under which a verified token is cached; its text is not kept."""
    return hashlib.sha256(text.encode()).hexdigest()


def _new_text() -> tuple[str, str]:
    """Return the id of a new token, and its text."""
    public = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(12))
    return public, f"hg_{public}_{secrets.token_urlsafe(32)}"


def _own_principal(name: str, public: str) -> str:
    """Return the principal of a token that names none: its name, or its id if the name is not valid."""
    try:
        return check_principal(name)
    except BadValue:
        return public


def _proof(text: str) -> Proof:
    """Return the salt and digest of a new token."""
    salt = secrets.token_hex(16)
    return salt, _digest(salt, text)
