"""How the processes of a store send each other news: each kind of database has its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, Protocol

#: The number that concerns everybody. Zero only says that listening began.
EVERYTHING = 1


class Wire(Protocol):
    """One way."""

    @property
    def works(self) -> bool:
        """Whether this process can listen at all."""
        ...

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        """Call `heard(number)` for each number that is sent on the channel until `stop` is set; 0 when it begins."""
        ...

    def tell(self, runner: Any, channel: str, numbers: Sequence[int]) -> None:
        """Call these numbers out to every process that listens. Nobody may hear it."""
        ...
