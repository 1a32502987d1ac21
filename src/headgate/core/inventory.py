"""The inventory's nouns: stored objects, their versions and files, and the messages about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class MessageKind(StrEnum):
    """The kinds of message."""

    #: A mail; its body is the whole message.
    MAIL = "mail"
    #: Reports a completed job to the profile's callback. Only the job's notify step sends it, because the job depends
    #: on its outcome.
    CALLBACK = "callback"
    #: Reports a failed job; nothing depends on its outcome.
    FAILURE = "failure"
    #: Incidents as JSON: a signed callback to a recipient in the settings.
    WEBHOOK = "webhook"
    #: Incidents for a chat that accepts Slack's JSON.
    SLACK = "slack"
    #: Incidents by mail, to a recipient in the settings.
    NOTICE = "notice"


class Sender(StrEnum):
    """The senders of messages."""

    #: The daemon that sends the outbox.
    MESSENGER = "messenger"
    #: The notify step of the job, which depends on the outcome, until the messenger takes over.
    JOB = "job"


class Delivery(StrEnum):
    """States of a message."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    #: It used up all attempts, or was refused permanently.
    GIVEN_UP = "given-up"


#: Prefix of the ids recorded for versions that no ingest job stored.
_IMPORT = "imp"


def import_id(ark: str, version: int) -> str:
    """The id recorded for an imported version in place of an ingest job's id."""
    return _IMPORT + hashlib.sha256(f"{ark} v{version}".encode()).hexdigest()[:16]


def is_import(job: str) -> bool:
    """Whether a version was imported rather than stored by an ingest job."""
    return job.startswith(_IMPORT)


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """A file of a stored version."""

    name: str  #: Its path in the object.
    size: int  #: Bytes.
    #: sha256, in hexadecimal.
    digest: str
    #: The version that added these bytes.
    since: int
    #: Further digests that came with the file: algorithm to value, in lower-case hexadecimal.
    digests: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything recorded about one stored version, in one step."""

    ark: str  #: ARK of the object.
    owner: str  #: Owner of the object.
    #: Its collection, which is also the dataset in the ledger.
    collection: str
    version: int  #: Number of the version.
    #: Its data id in the ledger.
    dataid: str
    created: datetime  #: When it was stored.
    files: tuple[InventoryFile, ...] = field(repr=False)  #: All files of the version.
    who: str = ""  #: Creator, from the ERC.
    what: str = ""  #: Title, from the ERC.
    when: str = ""  #: Date, from the ERC.
    #: ARKs of further collections that it belongs to.
    membership: tuple[str, ...] = ()
    local: tuple[str, ...] = ()  #: Local ids, given by the depositor.
    #: The ingest job; for an imported version, an id derived from its name.
    job: str = ""
    batch: str = ""  #: The batch.
    profile: str = ""  #: Name of the ingest profile.
    submitter: str = ""  #: Name of the depositor.
    payload: str = ""  #: URL of the payload.
    type: str = ""  #: Type of the payload.


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version in the inventory."""

    number: int  #: Its number, from 1.
    created: datetime  #: When it was stored.
    size: int  #: Bytes of all files.
    files: int  #: Number of files.
    #: The ingest job that stored it; `imp…`: it was imported.
    job: str
    batch: str  #: The batch; empty: it was imported.
    profile: str  #: Name of the ingest profile.


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in the inventory."""

    ark: str  #: Its ARK.
    owner: str  #: Its owner.
    collections: tuple[str, ...]  #: Its collections.
    local: tuple[str, ...]  #: Its local ids, given by the depositor.
    who: str  #: Creator, from the ERC.
    what: str  #: Title, from the ERC.
    when: str  #: Date, from the ERC.
    #: Its newest version.
    version: int
    created: datetime  #: When its first version was stored.
    modified: datetime  #: When its newest version was stored.


@dataclass(frozen=True, slots=True)
class Recipient:
    """One recipient of a mail, with the last answer of the mail server."""

    address: str  #: Mail address.
    #: Given up: refused permanently. Waiting: refused temporarily.
    state: Delivery
    #: The server's answer when it refused.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A mail or callback; it is sent at least once, always with the same id."""

    id: str  #: Its id.
    kind: MessageKind  #: What it is.
    #: The batch or ingest job that it is about, or `incidents`.
    item: str
    #: The exact bytes that are sent.
    body: str = field(repr=False)
    #: URL of a callback; mails contain their recipients. For a notice: its recipient's name in the settings.
    to: str = ""
    #: What caused it; distinguishes a repeat from a new message.
    occasion: str = ""
    state: Delivery = Delivery.WAITING  #: Its delivery state.
    tries: int = 0  #: Number of delivery attempts.
    #: Why the last attempt failed.
    problem: str = ""
    #: The batch of the item; the item itself if it is a batch.
    batch: str = field(default="", compare=False)
    sender: Sender = Sender.MESSENGER  #: What sends it.
    #: State of each recipient, after the first attempt.
    recipients: tuple[Recipient, ...] = ()
    #: When it entered its state; None: it is not in the outbox yet.
    since: datetime | None = field(default=None, compare=False)
    #: When the next attempt is due, while it waits.
    next_try: datetime | None = field(default=None, compare=False)

    @property
    def failed(self) -> bool:
        """Whether it is undelivered after at least one failed attempt; it may still be retried."""
        return self.state is Delivery.GIVEN_UP or (self.state is Delivery.WAITING and self.tries > 0)


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages to list; None: any."""

    item: str | None = None
    #: Only undelivered ones with at least one attempt.
    failed: bool = False
    #: Only ids after this one (keyset pagination).
    after: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Intake:
    """The profile and payload that a batch started with."""

    batch: str  #: Id of the batch.
    #: Its profile when it started.
    profile: Mapping[str, Any] = field(default_factory=dict)
    #: Why its payload yielded no jobs; empty: it did.
    problem: str = ""
    #: When it was stored, by the store's clock; None: stored before this was recorded.
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Which objects to list; None: any."""

    owner: str | None = None
    collection: str | None = None
    local: str | None = None
    ark: str | None = None
    #: Only ARKs after this one (keyset pagination).
    after: str | None = None
    limit: int | None = None
