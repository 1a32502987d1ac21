"""News between the processes of a store: each kind of database has its own mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, Protocol

#: The number that concerns every listener. Zero only says that listening began.
EVERYTHING = 1


class Wire(Protocol):
    """One way."""

    @property
    def works(self) -> bool:
        """Whether this process can listen at all."""
        ...

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        """Call `heard(number)` for each number on the channel until `stop` is set; 0 when listening begins."""
        ...

    def send(self, runner: Any, channel: str, numbers: Sequence[int]) -> None:
        """Send these numbers to every listening process. No process may be listening."""
        ...
