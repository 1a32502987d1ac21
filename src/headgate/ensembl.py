"""The API of the Ensembl locker: programs written for its resource_lock need only another import.

    from headgate.ensembl import ResourceLocker, LockException

    locker = ResourceLocker("mysql://user:pass@host:3306/resource_lock")
    my_lock = locker.lock("my_client_name", "uri://my_resource", "read")
    ...
    locker.unlock(my_lock)

Locks are persistent and not re-entrant, as in the original. Where the original raises ValueError, the error is both a
ValueError and one of Headgate's errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from headgate.core.ensembl import LOCK_TYPES, lock_number, number
from headgate.core.errors import BadValue, LockLost, LockRefused, Refused, UnknownName
from headgate.core.locks.model import Blocker, Lock, Mode
from headgate.core.locks.parsing import parse_mode
from headgate.core.values.names import check_name, check_resource
from headgate.gate import connect

__all__ = [
    "Client",
    "LockException",
    "LockGone",
    "NotFound",
    "Resource",
    "ResourceLock",
    "ResourceLocker",
    "WrongValue",
]

#: Options of the original's MySQL drivers that change nothing here: connections always use utf8mb4.
_DRIVER_OPTIONS = ("charset=", "use_unicode=")


class LockException(Refused):
    """The resource cannot be locked now, or a client or resource is in use and cannot be deleted."""

    def __init__(self, refusal: Refused) -> None:
        #: Headgate's own refusal.
        self.refusal = refusal
        #: Every lock that blocks the request.
        self.blockers: tuple[Blocker, ...] = refusal.blockers if isinstance(refusal, LockRefused) else ()
        super().__init__(str(refusal))


class NotFound(UnknownName, ValueError):
    """There is no such lock, client or resource."""


class WrongValue(BadValue, ValueError):
    """A name, lock type or id that cannot be used."""


class LockGone(LockLost, ValueError):
    """The lock was released or broken already."""


@dataclass(frozen=True, slots=True, repr=False)
class Client:
    """A client that acquires locks: a process, an application or a person."""

    #: A number derived from the name, the same in every process.
    client_id: int
    #: The name, unique.
    name: str

    def __repr__(self) -> str:
        return f"<Client(client_id={self.client_id}, name={self.name!r})>"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return {"client_id": self.client_id, "name": self.name}


@dataclass(frozen=True, slots=True, repr=False)
class Resource:
    """A resource that can be locked: a database, a file, anything with a URI."""

    #: A number derived from the URI, the same in every process.
    resource_id: int
    #: The URI, unique.
    uri: str

    def __repr__(self) -> str:
        return f"<Resource(resource_id={self.resource_id}, uri={self.uri!r})>"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return {"resource_id": self.resource_id, "uri": self.uri}


@dataclass(frozen=True, slots=True, repr=False)
class ResourceLock:
    """A lock that a client holds on a resource."""

    #: A number for releasing it. A lock that `headgate migrate` took over keeps the original's.
    resource_lock_id: int
    #: read or write.
    lock_type: str
    #: When it was acquired: UTC without a time zone, as in the original.
    created: datetime
    #: The holder.
    client: Client
    #: The locked resource.
    resource: Resource
    #: Headgate's id of the lock.
    lock_id: str = field(default="", compare=False)
    #: Grows with every grant on the resource; pass it to the systems that you write to.
    token: int = field(default=0, compare=False)

    @property
    def client_id(self) -> int:
        """The number of the client that holds it."""
        return self.client.client_id

    @property
    def resource_id(self) -> int:
        """The number of the resource that it holds."""
        return self.resource.resource_id

    def __repr__(self) -> str:
        return (
            f"<ResourceLock(resource_lock_id={self.resource_lock_id}, lock_type={self.lock_type!r}, "
            f"client={self.client.name!r}, resource={self.resource.uri!r})>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return {
            "resource_lock_id": self.resource_lock_id,
            "client": self.client.to_dict(),
            "resource": self.resource.to_dict(),
            "lock_type": self.lock_type,
            "created": self.created,
        }


class ResourceLocker:
    """Clients, resources and locks of one store, by the Ensembl locker's names."""

    def __init__(self, url: str, timeout: float = 3600) -> None:
        """Open the store; an empty database becomes one.

        `timeout`, and `charset` and `use_unicode` in the URL, are accepted as in the original, but ignored.
        """
        del timeout
        self.url = url
        # The URL given is where the locks are, whatever the settings say about coordination.
        with _original_errors():
            self._gate = connect(_without_driver_options(url), coordination_url="")
        self._locks = self._gate.locks

    def lock(self, client_name: str, resource_uri: str, lock_type: str) -> ResourceLock:
        """Acquire a persistent lock. LockException if any client, the same one included, holds a conflicting lock."""
        with _original_errors():
            check_name("client", client_name)
            check_resource(resource_uri)
            mode = parse_mode(lock_type)
            self._locks.register_client(client_name)
            return _lock(self._locks.acquire(client_name, resource_uri, mode))

    def unlock(self, lock: ResourceLock | int | str) -> None:
        """Release a lock, given as the object, its number or Headgate's id. LockGone if it is no longer held."""
        with _original_errors():
            held = lock if isinstance(lock, ResourceLock) else self._find_lock(lock)
            if held is None:
                raise NotFound("lock", str(lock), "It may have been released; get_locks() returns the current locks")
            self._locks.release(held.lock_id, held.token)

    def get_locks(
        self,
        *,
        client_name: str | None = None,
        resource_uri: str | None = None,
        lock_type: str | None = None,
        id: int | None = None,  # noqa: A002 - the original's name
        client: str | None = None,
        resource: str | None = None,
    ) -> list[ResourceLock]:
        """Return the held locks, oldest first: all, or those that match every filter that is given.

        `id`, `client` and `resource` are the original's names for the number, the client's name and the URI. As in the
        original, a `lock_type` other than read and write matches no lock.
        """
        mode = None if lock_type is None else _mode(lock_type)
        if lock_type is not None and mode is None:
            return []
        with _original_errors():
            found = self._locks.list(
                resource_uri if resource is None else resource, client_name if client is None else client, mode
            )
        locks = [
            lock
            for lock in map(_lock, found)
            if id in (None, lock.resource_lock_id)
            and client_name in (None, lock.client.name)
            and resource_uri in (None, lock.resource.uri)
        ]
        return sorted(locks, key=lambda lock: (lock.created, lock.lock_id))

    def get_lock(self, lock_id: int | str) -> ResourceLock | None:
        """Return the lock with that number or Headgate id; None if it is not held."""
        with _original_errors():
            return self._find_lock(lock_id)

    def get_client(self, name: str) -> Client:
        """Return the client with that name; create it if it does not exist."""
        with _original_errors():
            self._locks.register_client(name)
        return _client(name)

    def get_resource(self, uri: str) -> Resource:
        """Return the resource with that URI; create it if it does not exist."""
        with _original_errors():
            self._locks.register_resource(uri)
        return _resource(uri)

    def get_client_by_id(self, client_id: int) -> Client | None:
        """Return the client with that number, or None."""
        return next((each for each in self.get_clients() if each.client_id == client_id), None)

    def get_resource_by_id(self, resource_id: int) -> Resource | None:
        """Return the resource with that number, or None."""
        return next((each for each in self.get_resources() if each.resource_id == resource_id), None)

    def get_clients(self) -> list[Client]:
        """Return every client that was created or acquired a lock through this class, by name."""
        return [_client(name) for name, _since in self._locks.clients()]

    def get_resources(self) -> list[Resource]:
        """Return every resource that was created or locked, by URI."""
        return [_resource(uri) for uri in self._locks.resources()]

    def delete_client(self, client: Client | int | str) -> None:
        """Delete a client, given as the object, its number or its name. LockException while it holds a lock."""
        found = self.get_client_by_id(client) if isinstance(client, int) else client
        if found is None:
            raise NotFound("client", str(client))
        with _original_errors():
            self._locks.forget_client(found.name if isinstance(found, Client) else found)

    def delete_resource(self, resource: Resource | int | str) -> None:
        """Delete a resource, given as the object, its number or its URI. LockException while it is locked."""
        found = self.get_resource_by_id(resource) if isinstance(resource, int) else resource
        if found is None:
            raise NotFound("resource", str(resource))
        with _original_errors():
            self._locks.forget_resource(found.uri if isinstance(found, Resource) else found)

    def close(self) -> None:
        """Close the connections. Locks stay held."""
        self._gate.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find_lock(self, which: object) -> ResourceLock | None:
        if isinstance(which, str):
            return self._find_by_text(which)
        if isinstance(which, bool) or not isinstance(which, int):
            raise WrongValue("lock", which, "is neither a ResourceLock nor the number or id of one")
        found = [lock for lock in map(_lock, self._locks.list()) if lock.resource_lock_id == which]
        if len(found) > 1:
            raise WrongValue("lock", which, "is the number of several locks; use the lock itself, or its lock_id")
        return found[0] if found else None

    def _find_by_text(self, lock_id: str) -> ResourceLock | None:
        try:
            return _lock(self._locks.get(lock_id))
        except UnknownName:
            return None


@contextmanager
def _original_errors() -> Iterator[None]:
    """Turn Headgate's errors into those of the original."""
    try:
        yield
    except (LockException, NotFound, WrongValue):
        raise
    except Refused as error:
        raise LockException(error) from error
    except LockLost as error:
        raise LockGone(error.lock_id, error.token, error.why) from error
    except UnknownName as error:
        raise NotFound(error.what, error.name) from error
    except BadValue as error:
        raise WrongValue(error.what, error.value, error.why) from error


def _without_driver_options(url: str) -> str:
    place, _, query = url.partition("?")
    left = "&".join(each for each in query.split("&") if not each.startswith(_DRIVER_OPTIONS))
    return f"{place}?{left}" if left else place


def _mode(lock_type: str) -> Mode | None:
    try:
        return parse_mode(lock_type)
    except BadValue:
        return None


def _lock(lock: Lock) -> ResourceLock:
    return ResourceLock(
        resource_lock_id=lock_number(lock.id, lock.request_id),
        lock_type=LOCK_TYPES[lock.mode],
        created=lock.since.replace(tzinfo=None),
        client=_client(lock.client),
        resource=_resource(lock.resource),
        lock_id=lock.id,
        token=lock.token,
    )


def _client(name: str) -> Client:
    return Client(number("client", name), name)


def _resource(uri: str) -> Resource:
    return Resource(number("resource", uri), uri)
