"""Use cases about the server of a store: show its epoch, and raise the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.core.errors import BadValue
from headgate.core.values.names import check_reason
from headgate.service.access.identity import actor
from headgate.stores.ports.epochs import EpochStore, Raised, StoreState

#: Why a store has no tokens to raise, by the kind in its URL.
NEEDS_NONE = {
    "zookeeper": (
        "has no tokens to raise: an ensemble confirms a change only when a majority of its members has it, "
        "and a member without it cannot become leader. If you rebuilt the ensemble from an old snapshot, "
        "use another root in the URL"
    ),
    "http": "is a service; run this on a machine that reaches its store, with --url of the store",
    "https": "is a service; run this on a machine that reaches its store, with --url of the store",
}


class Epochs:
    """The stores of one gate whose tokens can be raised."""

    def __init__(self, stores: Sequence[EpochStore], left_out: Sequence[str] = ()) -> None:
        self._stores = stores
        #: The other stores, each with the reason why it has no tokens to raise.
        self.left_out = left_out

    def states(self) -> list[tuple[str, StoreState]]:
        """The name and state of each store."""
        return [(each.name, each.state()) for each in self._stores]

    def raise_tokens(self, *, reason: str, by: str | None = None) -> list[Raised]:
        """Raise all tokens far beyond those that were issued: leases end, and persistent locks get new tokens."""
        why, who = check_reason(reason), actor(by)
        return [each.raise_tokens(why, who) for each in self._stores]


class HasEpochs(Protocol):
    """A store, or a service that represents one."""

    @property
    def name(self) -> str: ...

    @property
    def epochs(self) -> EpochStore | None: ...


def epochs_of(stores: Sequence[HasEpochs]) -> Epochs:
    """The epochs of these stores; BadValue with the reason if none of them has any."""
    others = [each.name for each in stores if each.epochs is None]
    reasons = {name: NEEDS_NONE.get(name.partition("://")[0], "has no tokens to raise") for name in others}
    if len(others) == len(stores):
        raise BadValue("url", others[0], reasons[others[0]])
    found = [each.epochs for each in stores if each.epochs is not None]
    return Epochs(found, [f"{name} {why}" for name, why in reasons.items()])
