"""Parts of a store that are built on first use."""

from __future__ import annotations

import threading
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class _Closable(Protocol):
    def close(self) -> None: ...


class Parts:
    """At most one part of each kind, whichever thread asks first."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._built: dict[type[Any], Any] = {}

    def only(self, kind: type[T], *arguments: object) -> T:
        """Return the part of that kind; the first call builds it from the arguments."""
        with self._guard:
            if kind not in self._built:
                self._built[kind] = kind(*arguments)
        built: T = self._built[kind]
        return built

    def close(self) -> None:
        """Close the parts that were built, if they can be closed."""
        for part in tuple(self._built.values()):
            if isinstance(part, _Closable):
                part.close()
