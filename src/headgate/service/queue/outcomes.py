"""The outcomes that a handler can return for an item. It reports an outcome; it never sets a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headgate.core.queue.model import Identifiers, Item, Report
from headgate.service.leases.renewal import ItemHold


@dataclass(frozen=True, slots=True)
class Done:
    """The step succeeded: the item moves to the next state, with these changes in the same write. None: unchanged."""

    message: str = ""  #: The message, shown with the item.
    priority: int | None = None  #: 0 to 99, lowest first.
    space_needed: int | None = None  #: Bytes that the job needs in the work folder.
    identifiers: Identifiers | Mapping[str, Any] | None = None  #: ARK and local ids of the object.
    configuration: Mapping[str, Any] | None = None  #: Keys to add to the job's configuration, or to replace in it.
    #: The report, for a batch in reporting or update-reporting.
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The step failed."""

    message: str  #: Why, shown with the item.
    #: Whether a signal that asks to stop ended it.
    by_signal: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The item waits until an operator releases it (pending items only)."""

    message: str  #: Why, shown with the item.


@dataclass(frozen=True, slots=True)
class NotNow:
    """The step cannot be done yet: the item keeps its state, and is retried after a pause."""

    message: str = ""  #: Why, shown with the item.


Outcome = Done | Failed | Held | NotNow
#: Processes one item. When the consumer has lost the item, `hold.lost` is set: stop then, because nothing will be
#: recorded.
Handler = Callable[[Item, ItemHold], Outcome]


@runtime_checkable
class CanFinish(Protocol):
    """A handler with something to do after the queue has recorded its outcome."""

    def finished(self, item: Item) -> None:
        """Called after the item has changed its state. If the call is missed, the cleaner does the work.

        :param item: The item in its new state.
        """


@runtime_checkable
class CanAbandon(Protocol):
    """A handler that can stop its work on an item at once."""

    def abandon(self, item: Item) -> None:
        """Stop the work on an item. Nothing works on it any more when this returns.

        :param item: The item.
        """
