"""Which servers a session connects to, and how."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from headgate.stores.tls import NO_TLS, Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers of one ensemble."""

    #: What errors call it: the URL without a password.
    name: str
    #: Host:port, with commas between.
    hosts: str
    #: Seconds of the session of everything that is not leased.
    session: float = 10.0
    #: Seconds that a call may take, in place of the setting `answer_within`; None: as the setting says.
    patience: float | None = None
    #: Name and password for ZooKeeper's digest scheme.
    auth: list[tuple[str, str]] = field(default_factory=list)
    #: Who may use our nodes; None: everybody.
    acl: list[Any] | None = None
    #: How the connection is encrypted: not at all, unless the URL says so, since ZooKeeper has another port for it.
    tls: Tls = NO_TLS
    #: Where kazoo's own log goes.
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("headgate.kazoo"))
