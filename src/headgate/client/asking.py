"""Waiting for what a service has."""

from __future__ import annotations


class Asking:
    """A service wakes nobody who has no request open: who waits asks it again."""

    pause = 0.5

    def end(self) -> None:
        """Nothing is kept."""
