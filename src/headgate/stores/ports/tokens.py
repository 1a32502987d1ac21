"""The ports of API tokens, browser sessions and sign-in codes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headgate.core.access.scopes import ApiToken, TokenToMake

#: The salt and digest of a token, in hex.
Proof = tuple[str, str]


class TokenStore(Protocol):
    """Storage of API tokens."""

    def add_token(self, token: TokenToMake, proof: Proof) -> None:
        """One more."""

    def rotate_token(self, old: str, new: str, seconds: float | None, proof: Proof) -> bool:
        """Replace a token by a new one, in one step. `seconds`: None: the new one expires at the same time as the old
        one.

        False: it does not exist, or was revoked.
        """

    def token(self, token_id: str) -> tuple[ApiToken, Proof] | None:
        """A token and its proof."""

    def tokens(self) -> Sequence[ApiToken]:
        """All tokens, oldest first."""

    def revoke_token(self, token_id: str) -> bool:
        """Revoke it, and end its browser sessions. False: it does not exist."""

    def use_token(self, token_id: str) -> None:
        """Record that it was used now."""


class SessionStore(Protocol):
    """Storage of sessions and codes, by their digests. `kind` is "session" or "code"."""

    def add(self, kind: str, digest: str, token_id: str, seconds: float, most: int) -> None:
        """Add a session of this length. Expired ones are removed, and the oldest of the token beyond `most`."""

    def token_of(self, kind: str, digest: str) -> str | None:
        """The id of the token that it belongs to; None: it does not exist, or has expired."""

    def redeem(self, code: str, session: str, token_id: str, seconds: float, most: int) -> bool:
        """Replace a code by a session, in one step. False: the code no longer exists."""

    def end(self, digest: str) -> None:
        """Remove a session, if there is one."""

    def alive(self, digests: Collection[str]) -> set[str]:
        """Those of these sessions that are still valid."""
