"""The port for showing and raising a store's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoreState:
    """The server that a store is on, the state of its tokens, and what raising them would end."""

    #: The epoch that the store follows; empty: none yet, or the store needs none.
    epoch: str
    #: The epoch of the answering server. If it differs, the next call that writes follows it.
    server: str
    #: Every new token is greater than this.
    token_floor: int
    #: The greatest token that a lock may have been issued.
    highest_token: int
    leased_locks: int
    persistent_locks: int
    claims: int
    #: Number of batches and ingest jobs that are being processed.
    items: int
    #: When tokens were last raised, and why; None: never.
    raised_at: datetime | None
    raised_because: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The effects of raising a store's tokens."""

    store: str
    #: Every new token is greater than this.
    floor: int
    #: Number of leased locks that ended, and of persistent locks with a new token.
    leased_locks: int
    persistent_locks: int
    #: Number of claims that ended, and of batches and ingest jobs that were freed.
    claims: int
    items: int
    reason: str


class EpochStore(Protocol):
    """The epoch and the tokens of one store."""

    name: str

    def state(self) -> StoreState:
        """Which server the store follows, the state of its tokens, and what raising them would end."""

    def raise_tokens(self, reason: str, by: str) -> Raised:
        """Raise all tokens far beyond those that were issued; end leased holds, and renumber persistent ones."""
