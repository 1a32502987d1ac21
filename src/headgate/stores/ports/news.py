"""Waiting for news of chunks and items."""

from __future__ import annotations

from typing import Protocol


class Listening(Protocol):
    """A caller that waits for news."""

    @property
    def pause(self) -> float:
        """Seconds after which to check if it is not woken."""
        ...

    def end(self) -> None:
        """Stop waiting."""
        ...
