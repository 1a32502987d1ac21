"""Requests to ZooKeeper, each of which can be sent together with others.

They are kazoo's own request types, used without its methods: those check types and join paths again for every part,
which took as long as all the rest of a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.protocol.serialization import (
    Create,
    Create2,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Sync,
)
from kazoo.security import OPEN_ACL_UNSAFE

#: Call it with a client to send it; returns the future answer.
Question = Callable[[Any], Any]
Watch = Callable[[object], None]
#: How a node is created: 1 is ephemeral, 2 is numbered.
EPHEMERAL, NUMBERED = 1, 2


def send(client: Any, request: Any) -> Any:
    """Pass a request to the connection; returns the future answer."""
    answer = client.handler.async_result()
    client._call(request, answer)  # noqa: SLF001 - what every method of kazoo's client ends in
    return answer


def acl_of(client: Any) -> Any:
    """Access rights of the nodes that this client creates."""
    return client.default_acl or OPEN_ACL_UNSAFE


def read(path: str, watch: Watch | None = None) -> Question:
    """A node's data and times."""
    return lambda client: send(client, GetData(path, watch))


def look(path: str, watch: Watch | None = None) -> Question:
    """A node's times; None: it does not exist."""
    return lambda client: send(client, Exists(path, watch))


def children(path: str, watch: Watch | None = None) -> Question:
    """The names of a node's children."""
    return lambda client: send(client, GetChildren(path, watch))


def make(path: str, data: bytes | None = b"") -> Question:
    """A persistent node."""
    return lambda client: send(client, Create(path, data, acl_of(client), 0))


def keep(path: str) -> Question:
    """An ephemeral node."""
    return lambda client: send(client, Create(path, b"", acl_of(client), EPHEMERAL))


def join(path: str) -> Question:
    """A numbered ephemeral node; returns its path and times."""
    return lambda client: send(client, Create2(path, b"", acl_of(client), EPHEMERAL | NUMBERED))


def write(path: str, data: bytes, version: int = -1) -> Question:
    """Set a node's data, if it has that version; returns its times."""
    return lambda client: send(client, SetData(path, data, version))


def remove(path: str, version: int = -1) -> Question:
    """Remove a node, if it has that version."""
    return lambda client: send(client, Delete(path, version))


def catch_up(path: str) -> Question:
    """Make the connected server catch up with the others."""
    return lambda client: send(client, Sync(path))
