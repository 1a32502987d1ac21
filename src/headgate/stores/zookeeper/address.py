"""Where a ZooKeeper store is: the parts of its URL."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from headgate.core.errors import BadValue
from headgate.settings import mask
from headgate.stores.zookeeper.queue_tree import SPELLINGS, QueueTree
from headgate.stores.zookeeper.tree import Tree

FORM = "write zookeeper://host:port,host:port/folder"
DEFAULT_PORT = 2181


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, taken apart."""

    #: What errors call it: the URL without a password.
    name: str
    #: Host:port, with commas between.
    hosts: str
    #: Every node path of the locks.
    tree: Tree
    #: Every node path of the queue, in its spelling.
    queue: QueueTree
    #: Seconds of the session of everything that is not leased.
    session: float = 10.0
    #: Seconds that a call may take, in place of the setting `answer_within`; None: as the setting says.
    patience: float | None = None
    #: Name and password for ZooKeeper's digest scheme.
    auth: list[tuple[str, str]] = field(default_factory=list)
    #: Who may use our nodes; None: everybody.
    acl: list[Any] | None = None
    #: Where kazoo's own log goes.
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("headgate.kazoo"))


def parse(url: str) -> Address:
    """A URL's parts, or BadValue."""
    shown = mask(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadValue("url", shown, f"cannot be read: {error}") from None
    if parts.scheme != "zookeeper" or parts.fragment:
        raise BadValue("url", shown, f"is no ZooKeeper store; {FORM}")
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    chroot = _chroot(unquote(parts.path), shown)
    options = _options(parts.query, shown)
    return Address(
        name=shown,
        hosts=",".join(_host(host, shown) for host in hosts.split(",")),
        tree=Tree(chroot),
        queue=SPELLINGS[options.pop("spelling", "design")](chroot),
        auth=[("digest", f"{unquote(name)}:{unquote(password)}")] if at else [],
        acl=_acl(unquote(name), unquote(password)) if at else None,
        **options,
    )


def _host(text: str, shown: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or any(sign.isspace() for sign in text):
        raise BadValue("url", shown, f"has no host that can be read in {text!r}; {FORM}")
    return f"[{host}]:{port or DEFAULT_PORT}" if ":" in host else f"{host}:{port or DEFAULT_PORT}"


def _chroot(path: str, shown: str) -> str:
    names = [name for name in path.split("/") if name]
    if (not path.isprintable() and path) or any(name in (".", "..", "zookeeper") for name in names):
        raise BadValue("url", shown, f"names a folder that ZooKeeper cannot have: {path!r}")
    return "".join(f"/{name}" for name in names)


def _options(query: str, shown: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in ("session", "patience", "spelling"):
            raise BadValue(
                "url", shown, f"has an option that is unknown: {name}; there are: session, patience, spelling"
            )
        found[name] = _spelling(value, shown) if name == "spelling" else _seconds(name, value, shown)
    return found


def _spelling(value: str, shown: str) -> str:
    if value not in SPELLINGS:
        raise BadValue("url", shown, f"has spelling={value}, which is unknown; there are: {', '.join(SPELLINGS)}")
    return value


def _seconds(name: str, value: str, shown: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise BadValue("url", shown, f"has {name}={value}, which is not a number of seconds from 0.1 to 3600")
    return seconds


def _acl(user: str, password: str) -> list[Any]:
    from kazoo.security import make_digest_acl

    return [make_digest_acl(user, password, all=True)]
