"""What a handler says of the item that it was given. It reports an outcome; it never sets a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headgate.core.queue import Identifiers, Item, Report
from headgate.service.renewal import ItemHold


@dataclass(frozen=True, slots=True)
class Done:
    """The step went well: the item goes on, with these changes in the same write. None: as it was."""

    message: str = ""
    priority: int | None = None
    space_needed: int | None = None
    identifiers: Identifiers | Mapping[str, Any] | None = None
    configuration: Mapping[str, Any] | None = None
    #: Of a batch that is being reported.
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The step cannot be done."""

    message: str
    #: A signal that asks to stop ended it.
    by_signal: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The item shall wait until a person releases it (pending items alone)."""

    message: str


@dataclass(frozen=True, slots=True)
class NotNow:
    """The step cannot be done yet: the item stays where it is, and is looked at again after a pause."""

    message: str = ""


Outcome = Done | Failed | Held | NotNow
#: Works on one item. `hold.lost` says when the item is no longer the consumer's: then stop, nothing will be recorded.
Handler = Callable[[Item, ItemHold], Outcome]


@runtime_checkable
class CanFinish(Protocol):
    """A handler that has something to do once the queue has recorded its outcome."""

    def finished(self, item: Item) -> None:
        """The item moved on, and is as given here. Whatever is missed here, the cleaner must do."""


@runtime_checkable
class CanAbandon(Protocol):
    """A handler that can stop working on an item at once."""

    def abandon(self, item: Item) -> None:
        """Nothing works on the item any more when this returns."""
