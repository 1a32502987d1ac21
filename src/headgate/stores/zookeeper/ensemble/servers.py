"""The servers that a session connects to, and how."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from headgate.stores.tls import NO_TLS, Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers of one ensemble."""

    #: Their name in error messages: the URL without a password.
    name: str
    #: Host:port, with commas between.
    hosts: str
    #: Session length in seconds, for everything that is not leased.
    session: float = 10.0
    #: Seconds that a call may take, instead of the setting `answer_within`; None: as set there.
    patience: float | None = None
    #: Name and password for ZooKeeper's digest scheme.
    auth: list[tuple[str, str]] = field(default_factory=list)
    #: Access rights of our nodes; None: any client.
    acl: list[Any] | None = None
    #: Encryption of the connection: none unless the URL asks for it, because ZooKeeper uses a separate port for it.
    tls: Tls = NO_TLS
    #: The logger for kazoo's messages.
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("headgate.kazoo"))
