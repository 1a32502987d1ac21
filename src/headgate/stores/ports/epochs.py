"""The port by which an operator sees and raises a store's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoreState:
    """Which server keeps a store, where its tokens are, and what raising them would end."""

    #: The epoch that the store follows; empty: none yet, or the store needs none.
    epoch: str
    #: The epoch of the server that answers. Where it differs, the next call that writes follows it.
    server: str
    #: Every new token is greater than this.
    token_floor: int
    #: The greatest token of a lock that may have been given.
    highest_token: int
    leased_locks: int
    persistent_locks: int
    claims: int
    #: Batches and ingest jobs that somebody works on.
    items: int
    #: When tokens were last raised, and why; None: never.
    raised_at: datetime | None
    raised_because: str


@dataclass(frozen=True, slots=True)
class Raised:
    """What raising the tokens of a store did."""

    store: str
    #: Every token from now on is greater than this.
    floor: int
    #: Leased locks that ended; persistent locks with a new token.
    leased_locks: int
    persistent_locks: int
    #: Claims that ended, and batches and ingest jobs that were freed.
    claims: int
    items: int
    reason: str


class EpochStore(Protocol):
    """The epoch and the tokens of one store."""

    name: str

    def state(self) -> StoreState:
        """Which server the store follows, where its tokens are, and what raising them would end."""

    def raise_tokens(self, reason: str, by: str) -> Raised:
        """Raise all tokens far beyond those that were given; end what is leased, renumber what is persistent."""
