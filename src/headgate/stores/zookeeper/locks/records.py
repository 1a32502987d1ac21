"""The content of nodes: a resource's state, its holders, and the positions in its queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from headgate.core.errors import ForeignStore
from headgate.core.locks.model import Lock, Mode, Request, Waiter
from headgate.core.values.documents import quoted, read_document
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.tree import letters_of_lock, sequence_of

#: A placeholder for a time that is not known and not needed.
NEVER = datetime.fromtimestamp(0, UTC)
#: A position whose name would be longer is not granted by others: its waiter acquires by itself.
LONGEST_NAME = 1000
#: Number of waiters whose names are passed on with a grant, so that the next release need not list them.
MOST_PASSED_ON = 16
#: Number of parts in the name of a position that was taken before owners were recorded.
OLD_PARTS = 11
WAIT, LOCK, DELAY = "wait:", "lock-", "delay-"


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a child's node was created and renewed, and by which transactions."""

    #: The number of the transaction that created it, and its time in milliseconds.
    number: int
    made: int
    #: The time of the newest renewal, its transaction, and the resulting version, in ZooKeeper's names.
    mtime: int
    mzxid: int
    version: int
    #: The lease length in seconds until the next renewal; None: the holder's length.
    span: float | None = None


def read_stamp(answer: Any) -> Stamp | None:
    """The stamp in the answer to reading a child; None: there is no such child."""
    if isinstance(answer, Exception):
        return None
    data, stat = answer
    return Stamp(stat.czxid, stat.ctime, stat.mtime, stat.mzxid, stat.version, _span(data))


def _span(data: bytes | None) -> float | None:
    try:
        return float(data) if data else None
    except ValueError:
        return None


def write_span(seconds: float) -> bytes:
    """As stored in the node."""
    return b"%.3f" % seconds


@dataclass(frozen=True, slots=True)
class Holder:
    """A grant as recorded in the resource's node."""

    id: str
    client: str
    mode: Mode
    token: int
    #: The child node whose life it depends on.
    node: str
    #: Lease length in seconds; None: persistent.
    lease: float | None = None
    count: int = 1
    owner: str = ""
    note: str = ""
    request_id: str = ""
    #: Seconds that the resource stays locked if the holder dies.
    delay: float = 0.0
    #: It died, and its lock-delay counts from when the child was created.
    dead: bool = False
    #: When it was granted, in milliseconds, if the child no longer shows it.
    since: int | None = None
    #: The owner; empty: it was granted before owners were recorded.
    principal: str = ""

    def lock(self, resource: str, *, since: datetime = NEVER, left: float | None = None) -> Lock:
        """In the form for the rest of the program. `left`: the remaining seconds of its lease, if not all of it."""
        if self.dead:
            left = 0.0
        elif self.lease is None or left is None:
            left = self.lease
        return Lock(
            self.id, resource, self.client, self.mode, self.token, since if self.since is None else moment(self.since),
            self.lease, left, self.count, self.owner, self.note, self.request_id, self.principal,
        )  # fmt: skip


def _encode_holder(each: Holder) -> str:
    """Default values are left out."""
    parts = [
        f'"id":"{each.id}","client":{quoted(each.client)},"mode":"{each.mode.value}","token":{each.token}',
        f'"node":{quoted(each.node)},"request":{quoted(each.request_id)}',
    ]
    if each.lease is not None:
        parts.append(f'"lease":{each.lease!r}')
    texts = (("owner", each.owner), ("note", each.note), ("principal", each.principal))
    parts += [f'"{name}":{quoted(text)}' for name, text in texts if text]
    if each.count != 1:
        parts.append(f'"count":{each.count}')
    if each.delay:
        parts.append(f'"delay":{each.delay!r}')
    if each.dead:
        parts.append('"dead":true')
    if each.since is not None:
        parts.append(f'"since":{each.since}')
    return ",".join(parts)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a resource's node records."""

    uri: str
    #: The newest grant's.
    token: int = 0
    holders: tuple[Holder, ...] = ()
    #: There may be waiters: check before anything is granted. No waiter sleeps in the queue while this is false.
    waiting: bool = False
    known: bool = True

    def encode(self) -> bytes:
        """As stored in the node."""
        holders = ",".join(f"{{{_encode_holder(each)}}}" for each in self.holders)
        return (
            f'{{"uri":{quoted(self.uri)},"token":{self.token},"holders":[{holders}],'
            f'"waiting":{_WORDS[self.waiting]},"known":{_WORDS[self.known]}}}'
        ).encode()


_WORDS = {False: "false", True: "true"}


def decode_state(data: bytes, path: str) -> State:
    """A resource's state, or ForeignStore when the node has foreign content."""
    try:
        content = read_document(data)
        holders = tuple(_decode_holder(each) for each in content["holders"])
        return State(
            str(content["uri"]), int(content["token"]), holders, bool(content["waiting"]), bool(content["known"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForeignStore(
            f"the node {path} has content that Headgate did not write ({type(error).__name__}: {error}). Restore its "
            "content, or remove the node if no client holds the resource"
        ) from None


def _decode_holder(content: dict[str, Any]) -> Holder:
    fields = {**content, "mode": Mode(content["mode"]), "request_id": content["request"]}
    del fields["request"]
    fields.pop("session", None)  # Leases used to be sessions.
    return Holder(**fields)


@dataclass(frozen=True, slots=True)
class WaitNode:
    """A position in the queue of one resource: the node's name contains everything, so one listing shows it."""

    name: str
    _parts: Sequence[str] = field(repr=False, compare=False)

    @property
    def mark(self) -> str:
        """Distinguishes two positions of one request, and finds ours when an answer was lost."""
        return self._parts[1]

    @property
    def mode(self) -> Mode:
        """The mode wanted."""
        return Mode(self._parts[2])

    @property
    def session(self) -> int:
        """The session that the node belongs to, whose mailbox its waiter reads."""
        return int(self._parts[3])

    @property
    def lease(self) -> float | None:
        """The lease of a grant that others may make; None: the waiter acquires by itself."""
        return float(self._parts[4]) if self._parts[4] else None

    @property
    def client(self) -> str:
        """A waiter."""
        return unquote(self._parts[6])

    @property
    def request_id(self) -> str:
        """The request that waits."""
        return unquote(self._parts[8])

    @property
    def principal(self) -> str:
        """The owner of its grant."""
        return unquote(self._parts[10]) if len(self._parts) > OLD_PARTS else ""

    @property
    def delay(self) -> float:
        """The lock-delay of its grant."""
        return float(self._parts[5])

    @property
    def note(self) -> str:
        """The note of its grant."""
        return unquote(self._parts[9])

    def is_of(self, request: Request) -> bool:
        """Whether it is a position of that request."""
        return (self.request_id, self.client) == (request.id, request.client)

    def waiter(self, resource: str, ticket: int = 0, since: datetime = NEVER) -> Waiter:
        """In the form for the rest of the program."""
        return Waiter(ticket, resource, self.client, self.mode, since, unquote(self._parts[7]))


def place_name(request: Request, mode: Mode, mark: str, session: int, lease: float | None) -> str:
    """The name of a position's node, up to the number that ZooKeeper appends.

    A lock that would outlive its waiter is not granted by others: a waiter for a persistent lock acquires it itself.
    """
    if lease is not None and len(request.wants) == 1 and not request.reentrant:
        full = _place_name(request, mode, mark, session, f"{lease}", f"{request.lock_delay}", request.note)
        if len(full) <= LONGEST_NAME:
            return full
    return _place_name(request, mode, mark, session, "", "0", "")


def _place_name(request: Request, mode: Mode, mark: str, session: int, lease: str, delay: str, note: str) -> str:
    said = (request.client, request.owner, request.id, note, request.principal)
    texts = (quote(text, safe=" @#") for text in said)
    return WAIT + ":".join((mark, mode.value, str(session), lease, delay, *texts, ""))


def read_place(name: str) -> WaitNode | None:
    """The position in a node's name; None when it is another kind of node."""
    if not name.startswith(WAIT):
        return None
    parts = name.split(":")
    return WaitNode(name, parts) if len(parts) in (OLD_PARTS, OLD_PARTS + 1) else None


def read_queue(children: Iterable[str], holders: Sequence[Holder]) -> list[WaitNode]:
    """The positions that were not granted yet, earliest first."""
    granted = {holder.node for holder in holders}
    places = [place for name in children if name not in granted and (place := read_place(name))]
    return sort_places(places)


def sort_places(places: list[WaitNode]) -> list[WaitNode]:
    """In the order of their numbers, which wrap around after two thousand million."""
    if len(places) < 2:
        return places
    first = sequence_of(places[0].name)
    return sorted(places, key=lambda place: (sequence_of(place.name) - first + 2**31) % 2**32)


def lock_node(lock_id: str, token: int) -> str:
    """The child node whose life a grant depends on. Never used twice, because tokens are not."""
    return f"{LOCK}{token}-{letters_of_lock(lock_id)}"


@dataclass(frozen=True, slots=True)
class HandOver:
    """The message to a waiter whose turn has come: the current resource, and the next waiters."""

    #: The name of the position that it is for.
    mark: str
    version: int
    state: State
    #: Nodes of the waiters after it.
    names: tuple[str, ...]


def write_message(mark: str, version: int, state: bytes, queue: Sequence[WaitNode]) -> bytes:
    """As stored in the node."""
    names = "".join(f"\n{place.name}" for place in queue[:MOST_PASSED_ON])
    return b"%s\n%d\n%s%s" % (mark.encode(), version, state, names.encode())


def read_message(data: bytes, path: str) -> HandOver | None:
    """The content of a node; None: nothing."""
    if not data:
        return None
    mark, version, state, *names = data.split(b"\n")
    return HandOver(mark.decode(), int(version), decode_state(state, path), tuple(name.decode() for name in names))
