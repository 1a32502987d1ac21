"""Questions to ZooKeeper, each to be sent together with others.

They are kazoo's own requests, without its methods around them: those check types and join paths again for every
part, which took as long as all the rest of a lock.
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

#: Sent by calling it with a client; gives the answer to come.
Question = Callable[[Any], Any]
Watch = Callable[[object], None]
#: How a node is made: 1 is ephemeral, 2 is numbered.
EPHEMERAL, NUMBERED = 1, 2


def send(client: Any, request: Any) -> Any:
    """Hand a request to the connection; gives the answer to come."""
    answer = client.handler.async_result()
    client._call(request, answer)  # noqa: SLF001 - what every method of kazoo's client ends in
    return answer


def acl_of(client: Any) -> Any:
    """Who may use what this client makes."""
    return client.default_acl or OPEN_ACL_UNSAFE


def read(path: str, watch: Watch | None = None) -> Question:
    """A node's data and times."""
    return lambda client: send(client, GetData(path, watch))


def look(path: str, watch: Watch | None = None) -> Question:
    """A node's times; None: there is none."""
    return lambda client: send(client, Exists(path, watch))


def children(path: str, watch: Watch | None = None) -> Question:
    """The names of a node's children."""
    return lambda client: send(client, GetChildren(path, watch))


def make(path: str, data: bytes | None = b"") -> Question:
    """A node that stays."""
    return lambda client: send(client, Create(path, data, acl_of(client), 0))


def keep(path: str) -> Question:
    """A node that lives by the session."""
    return lambda client: send(client, Create(path, b"", acl_of(client), EPHEMERAL))


def join(path: str) -> Question:
    """A numbered node that lives by the session; gives its path and its times."""
    return lambda client: send(client, Create2(path, b"", acl_of(client), EPHEMERAL | NUMBERED))


def write(path: str, data: bytes, version: int = -1) -> Question:
    """A node's data, if it has that version; gives its times."""
    return lambda client: send(client, SetData(path, data, version))


def remove(path: str, version: int = -1) -> Question:
    """A node goes, if it has that version."""
    return lambda client: send(client, Delete(path, version))


def catch_up(path: str) -> Question:
    """The server that we talk to gets all that the others have."""
    return lambda client: send(client, Sync(path))
