"""Questions to ZooKeeper, each to be sent together with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Sent by calling it with a client; gives the answer to come.
Question = Callable[[Any], Any]
Watch = Callable[[object], None]


def read(path: str, watch: Watch | None = None) -> Question:
    """A node's data and times."""
    return lambda client: client.get_async(path, watch)


def look(path: str, watch: Watch | None = None) -> Question:
    """A node's times; None: there is none."""
    return lambda client: client.exists_async(path, watch)


def children(path: str) -> Question:
    """The names of a node's children."""
    return lambda client: client.get_children_async(path)


def make(path: str, data: bytes = b"") -> Question:
    """A node that stays."""
    return lambda client: client.create_async(path, data)


def keep(path: str) -> Question:
    """A node that lives by the session."""
    return lambda client: client.create_async(path, ephemeral=True)


def join(path: str) -> Question:
    """A numbered node that lives by the session; gives its path and its times."""
    return lambda client: client.create_async(path, ephemeral=True, sequence=True, include_data=True)


def write(path: str, data: bytes, version: int = -1) -> Question:
    """A node's data, if it has that version; gives its times."""
    return lambda client: client.set_async(path, data, version)


def remove(path: str) -> Question:
    """A node goes."""
    return lambda client: client.delete_async(path)


def catch_up(path: str) -> Question:
    """The server that we talk to gets all that the others have."""
    return lambda client: client.sync_async(path)
