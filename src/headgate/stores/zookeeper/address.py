"""The address of a ZooKeeper store: the parts of its URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from headgate.core.errors import BadValue
from headgate.core.values.redaction import mask
from headgate.stores.tls import OFF, all_stay_here, take_options
from headgate.stores.tls import OPTIONS as TLS_OPTIONS
from headgate.stores.zookeeper.ensemble.servers import Servers
from headgate.stores.zookeeper.queue.spellings import SPELLINGS
from headgate.stores.zookeeper.queue.tree import QueueTree
from headgate.stores.zookeeper.tree import Tree

FORM = "write zookeeper://host:port,host:port/folder"
DEFAULT_PORT = 2181
#: Warnings about an ensemble on other machines.
OPEN = (
    "is used without a user: anyone who can reach the ensemble can read and change locks and queue. Add a user and "
    "a password to the URL"
)
IN_CLEAR = (
    "is used without TLS: its password crosses the network unencrypted. Use the ensemble's secure port in the URL, "
    "and add ?tls=verify"
)
#: Options of the URL, besides those of TLS.
OPTIONS = ("session", "patience", "spelling")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address(Servers):
    """A parsed URL."""

    #: Every node path of the store.
    tree: Tree
    #: Every node path of the queue, in its spelling.
    queue: QueueTree
    #: Whether every server is on this machine.
    is_here: bool = True

    def notices(self) -> list[str]:
        """What others on the network can do with the store, given its URL; empty if all servers are on this machine."""
        if self.is_here:
            return []
        if not self.auth:
            return [f"{self.name} {OPEN}"]
        return [f"{self.name} {IN_CLEAR}"] if self.tls.mode == OFF else []


def parse(url: str) -> Address:
    """A URL's parts, or BadValue."""
    shown = mask(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadValue("url", shown, f"cannot be read: {error}") from None
    if parts.scheme != "zookeeper" or parts.fragment:
        raise BadValue("url", shown, f"is not a ZooKeeper URL; {FORM}")
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    chroot = _chroot(unquote(parts.path), shown)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = take_options(given, shown).or_else(OFF)
    options = _options(given, shown)
    servers = [_host(host, shown) for host in hosts.split(",")]
    return Address(
        name=shown,
        hosts=",".join(servers),
        tls=tls,
        is_here=all_stay_here(server.rpartition(":")[0] for server in servers),
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
        raise BadValue("url", shown, f"has no valid host in {text!r}; {FORM}")
    return f"[{host}]:{port or DEFAULT_PORT}" if ":" in host else f"{host}:{port or DEFAULT_PORT}"


def _chroot(path: str, shown: str) -> str:
    names = [name for name in path.split("/") if name]
    if (not path.isprintable() and path) or any(name in (".", "..", "zookeeper") for name in names):
        raise BadValue("url", shown, f"names a folder that is not valid in ZooKeeper: {path!r}")
    return "".join(f"/{name}" for name in names)


def _options(given: dict[str, str], shown: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in OPTIONS:
            known = ", ".join((*OPTIONS, *TLS_OPTIONS))
            raise BadValue("url", shown, f"has an unknown option: {name}; known: {known}")
        found[name] = _spelling(value, shown) if name == "spelling" else _seconds(name, value, shown)
    return found


def _spelling(value: str, shown: str) -> str:
    if value not in SPELLINGS:
        raise BadValue("url", shown, f"has spelling={value}, which is unknown; known: {', '.join(SPELLINGS)}")
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
