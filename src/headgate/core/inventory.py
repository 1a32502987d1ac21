"""The inventory's nouns: stored objects, their versions and files; and what is to be told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a message is."""

    #: A mail; its body is the whole message.
    MAIL = "mail"
    #: What a job's notify step tells the profile's callback. Only that step sends it, since its outcome counts.
    CALLBACK = "callback"
    #: The same of a job that failed: nothing waits for it.
    FAILURE = "failure"


class Sender(StrEnum):
    """Who sends a message."""

    #: The daemon that sends what is in the outbox.
    MESSENGER = "messenger"
    #: The notify step of the job, whose outcome counts; until the message is handed to the messenger.
    JOB = "job"


class Delivery(StrEnum):
    """How far a message has come."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    #: Tried often enough, or refused for good.
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """A file of a stored version."""

    name: str
    size: int
    #: sha256, in hexadecimal.
    digest: str
    #: The version in which these bytes came.
    since: int


@dataclass(frozen=True, slots=True)
class Recording:
    """All that is written down of one stored version, in one step."""

    ark: str
    owner: str
    #: Its collection, which is the ledger's dataset too.
    collection: str
    version: int
    #: What the ledger calls this version.
    dataid: str
    created: datetime
    files: tuple[InventoryFile, ...] = field(repr=False)
    who: str = ""
    what: str = ""
    when: str = ""
    #: ARKs of the collections that it belongs to besides.
    membership: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    #: How it came: the ingest.
    job: str = ""
    batch: str = ""
    profile: str = ""
    submitter: str = ""
    payload: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version as the inventory has it."""

    number: int
    created: datetime
    size: int
    files: int
    #: The ingest job that made it, its batch, and its profile.
    job: str
    batch: str
    profile: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the inventory has it."""

    ark: str
    owner: str
    collections: tuple[str, ...]
    local: tuple[str, ...]
    who: str
    what: str
    when: str
    #: Its newest version.
    version: int
    created: datetime
    modified: datetime


@dataclass(frozen=True, slots=True)
class Recipient:
    """One recipient of a mail, as far as a mail server has answered for it."""

    address: str
    #: Given up: refused for good. Waiting: refused for now.
    state: Delivery
    #: What the server answered when it refused.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """Something that somebody is to be told: at least once, always under the same id."""

    id: str
    kind: Kind
    #: The batch or ingest job that it tells of.
    item: str
    #: What is sent, to the byte.
    body: str = field(repr=False)
    #: Where to, for a callback; a mail names its recipients itself.
    to: str = ""
    #: What gave rise to it, so that a repeat of that is known from another one.
    occasion: str = ""
    state: Delivery = Delivery.WAITING
    tries: int = 0
    #: Why the last try failed.
    problem: str = ""
    #: The batch of the item; the item itself if it is a batch.
    batch: str = field(default="", compare=False)
    sender: Sender = Sender.MESSENGER
    #: Of a mail that was tried: what became of each recipient.
    recipients: tuple[Recipient, ...] = ()
    #: Since when it is in its state; None: it is not in the outbox yet.
    since: datetime | None = field(default=None, compare=False)
    #: When it is tried next, while it waits.
    next_try: datetime | None = field(default=None, compare=False)

    @property
    def failed(self) -> bool:
        """Whether it did not arrive and at least one try has failed; it may still be tried again."""
        return self.state is Delivery.GIVEN_UP or (self.state is Delivery.WAITING and self.tries > 0)


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages to list; None: any."""

    item: str | None = None
    #: Only those that did not arrive although at least one try was made.
    failed: bool = False
    #: Only ids after this one (page by key).
    after: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Intake:
    """What a batch started with."""

    batch: str
    #: Its profile as it was then.
    profile: Mapping[str, Any] = field(default_factory=dict)
    #: Why its payload gave no jobs; empty: it did.
    problem: str = ""
    #: Since when it is kept, by the store's clock; None: from before that was recorded.
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Which objects to list; None: any."""

    owner: str | None = None
    collection: str | None = None
    local: str | None = None
    ark: str | None = None
    #: Only ARKs after this one (page by key).
    after: str | None = None
    limit: int | None = None
