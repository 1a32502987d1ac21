"""The ports of API tokens, browser sessions and sign-in codes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headgate.core.access.scopes import ApiToken, TokenToMake

#: The salt and the digest by which a store knows a token, in hex.
Proof = tuple[str, str]


class TokenStore(Protocol):
    """Where tokens are kept."""

    def add_token(self, token: TokenToMake, proof: Proof) -> None:
        """One more."""

    def rotate_token(self, old: str, new: str, seconds: float | None, proof: Proof) -> bool:
        """Replace a token by a new one, in one step. `seconds`: None: the new one expires when the old one would.

        False: there is none, or it was revoked.
        """

    def token(self, token_id: str) -> tuple[ApiToken, Proof] | None:
        """A token and what proves it."""

    def tokens(self) -> Sequence[ApiToken]:
        """All tokens, oldest first."""

    def revoke_token(self, token_id: str) -> bool:
        """It opens nothing any more, and its browser sessions end. False: there is none."""

    def use_token(self, token_id: str) -> None:
        """It was used just now."""


class SessionStore(Protocol):
    """Where they are kept, by their digests. `kind` is "session" or "code"."""

    def add(self, kind: str, digest: str, token_id: str, seconds: float, most: int) -> None:
        """Add a session of that length. Expired ones are removed, and the oldest of the token beyond `most`."""

    def token_of(self, kind: str, digest: str) -> str | None:
        """The id of the token that it belongs to; None: there is none, or it has expired."""

    def redeem(self, code: str, session: str, token_id: str, seconds: float, most: int) -> bool:
        """A session in place of a code, in one step. False: there is no such code any more."""

    def end(self, digest: str) -> None:
        """Remove a session, if there is one."""

    def alive(self, digests: Collection[str]) -> set[str]:
        """Those of these sessions that have not ended."""
