"""Waiting for news of chunks and items."""

from __future__ import annotations

from typing import Protocol


class Listening(Protocol):
    """One who waits for news."""

    @property
    def pause(self) -> float:
        """Seconds after which to look, if nobody calls."""
        ...

    def end(self) -> None:
        """Nobody waits any more."""
        ...
