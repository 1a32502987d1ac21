"""Every node path of a store but those of its queue, and nothing else.

<chroot>/headgate                              {"tag", "schema"}
    /clock                                     written to learn the leader's time and epoch
    /epochs/<epoch>                            an epoch of the leader was first noticed at its ctime
    /service                                   a service was last heard of at its mtime
    /clients/-<client>                         since = ctime
    /locks/<2 letters>/<resource key>          the resource's state; its version guards every change
        /lock-<token>-<request letters>        a grant; since = ctime, renewed at its mtime; data: see below
        /wait:…:<sequence>                     a queue position: ephemeral; ticket = czxid
        /delay-<token>                         a dead writer's lock-delay runs since its ctime
    /history/<number>/<names>:<sequence>       what happened; id = number and sequence, at = ctime
    /mail/<session>                            notifies a waiter that its turn has come: ephemeral
    /refusals/<2 letters>/<key>-<client>       path of this minute's history node
    /repeats/<2 letters>/<record id>           a request with an idempotency key that took effect; since = ctime

A lease runs from the node's mtime, if that is of the leader's present epoch, else from the ctime of /epochs/<epoch>.
It is as long as the state says; data that is not empty says how many seconds it is until it is renewed.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote

from headgate.core.locks.model import resource_key


class Tree:
    """The paths of one store."""

    def __init__(self, chroot: str) -> None:
        self.chroot = chroot
        self.root = f"{chroot}/headgate"
        self.clock = f"{self.root}/clock"
        self.epochs = f"{self.root}/epochs"
        self.service = f"{self.root}/service"
        self.clients = f"{self.root}/clients"
        self.locks = f"{self.root}/locks"
        self.history = f"{self.root}/history"
        self.refusals = f"{self.root}/refusals"
        self.mail = f"{self.root}/mail"
        self.repeats = f"{self.root}/repeats"

    @property
    def folders(self) -> tuple[str, ...]:
        """The nodes that are made together with the root."""
        return (
            self.clock, self.epochs, self.clients, self.locks, self.history, self.refusals, self.mail,
            self.history_folder(0),
        )  # fmt: skip

    def of_key(self, key: str) -> str:
        """A resource's node, by its key."""
        return f"{self.locks}/{key[:2]}/{key}"

    def of_lock(self, lock_id: str) -> str:
        """The node of a lock's resource, by the lock's id."""
        return self.of_key(key_of_lock(lock_id))

    def resource(self, resource: str) -> str:
        """A resource's node, by its name."""
        return self.of_key(key_of(resource))

    def client(self, name: str) -> str:
        """A client's node. The dash keeps '.' and '..' from being names."""
        return f"{self.clients}/-{quote(name, safe='')}"

    def history_folder(self, number: int) -> str:
        """A folder of history nodes."""
        return f"{self.history}/{number:010d}"

    def repeat(self, record_id: str) -> str:
        """The record of a request with an idempotency key."""
        return f"{self.repeats}/{record_id[:2]}/{record_id}"

    def refusal(self, resource: str, client: str) -> str:
        """Where the refusals of a client on a resource are counted."""
        key = resource_key(resource)
        return f"{self.refusals}/{key[:2]}/{key}-{resource_key(client)}"


#: The key of a resource's node.
key_of = lru_cache(maxsize=10_000)(resource_key)


def client_name(node: str) -> str:
    """The client behind a node's name."""
    return unquote(node[1:])


def key_of_lock(lock: str) -> str:
    """The resource's key within a lock's id."""
    return lock.split("-")[1]


def letters_of_lock(lock: str) -> str:
    """The request's letters within a lock's id."""
    return lock.split("-")[2]


def parent(path: str) -> str:
    """The node above."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The node's own name."""
    return path.rpartition("/")[2]


def sequence_of(name: str) -> int:
    """The number behind a sequential node's name, which all begin with a colon."""
    return int(name.rpartition(":")[2])
