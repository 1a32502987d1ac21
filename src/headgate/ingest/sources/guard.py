"""The addresses that the HTTP client may connect to, checked when it connects, after resolving the name."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from headgate.core.errors import BadValue, MissingExtra
from headgate.core.values.redaction import shown
from headgate.ingest.stopping import Stop, check_stop

try:
    import httpcore2
except ImportError as error:
    raise MissingExtra("ingest", "Fetching needs httpcore2") from error

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: Resolves a name to addresses; socket.getaddrinfo except in tests.
Resolve = Callable[[str, int], Sequence[str]]

#: Forbidden in addition to `is_global`, which was wrong for some of them in older Python versions; others contain an
#: IPv4 address that would not be checked.
NOT_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
        "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
        "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip

DEFAULT_PORTS = {"http": 80, "https": 443}
#: How often a waiting read checks whether it should stop.
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the allowed addresses and sizes. Those of a profile, or of the installation."""

    #: Any of http, https, s3 and file.
    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] = frozenset({80, 443})
    #: The allowed hosts, if any are named: `data.example.org`, or `*.example.org` for all below.
    hosts: tuple[str, ...] = ()
    #: Private networks that are allowed: `127.0.0.0/8`.
    private_networks: tuple[str, ...] = ()
    #: Folders below which `file:` URLs may point.
    roots: tuple[Path, ...] = ()
    #: Maximum number of redirects; each is checked like the first address.
    redirects: int = 0
    connect_seconds: float = 10.0
    #: Maximum seconds from the request to the end of the answer's headers.
    answer_seconds: float = 60.0
    #: Longest silence within a body.
    idle_seconds: float = 60.0
    #: Longest time for one answer, including the body.
    total_seconds: float = 6 * 3600.0
    #: Minimum speed of a body in bytes per second, averaged from its start once `slow_seconds` have passed.
    min_rate: float = 1024.0
    slow_seconds: float = 30.0
    #: Largest body.
    max_bytes: int = 1 << 40


def check_url(url: str, rules: Rules) -> SplitResult:
    """The parts of a URL that can be checked without a network. BadValue with the reason if it may not be used."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError as error:
        raise BadValue("URL", shown(url), f"cannot be read: {error}") from None
    why = _why_not(parts, port, rules)
    if why:
        raise BadValue("URL", shown(url), why)
    return parts


def _why_not(parts: SplitResult, port: int | None, rules: Rules) -> str:
    if parts.scheme not in rules.schemes:
        return f"has the scheme {parts.scheme!r}; allowed: {', '.join(sorted(rules.schemes))}"
    if parts.scheme == "file":
        return "" if parts.netloc in ("", "localhost") else "names another machine"
    return _why_not_host(parts, port, rules)


def _why_not_host(parts: SplitResult, port: int | None, rules: Rules) -> str:
    if "@" in parts.netloc:
        return "contains a user name or password"
    if not parts.hostname or "%" in parts.hostname:
        return "has no valid host"
    if parts.scheme != "s3" and port not in rules.ports:
        return f"has the port {port}; allowed: {', '.join(map(str, sorted(rules.ports)))}"
    if rules.hosts and not any(_host_matches(parts.hostname, each) for each in rules.hosts):
        return f"has the host {parts.hostname}, which is not on the list of allowed hosts"
    return ""


def _host_matches(host: str, pattern: str) -> bool:
    host, pattern = host.rstrip(".").lower(), pattern.lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def why_not_address(text: str, rules: Rules) -> str:
    """Why an address may not be connected to; empty when it may."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return f"{text} is not an address"
    if any(address in ipaddress.ip_network(each) for each in rules.private_networks):
        return ""
    if not address.is_global or address.is_multicast or any(address in each for each in NOT_PUBLIC):
        return f"{text} is not a public address"
    return ""


def system_addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Watch(threading.local):
    """The limits of the current thread's request. Reads of its sockets check them."""

    def __init__(self) -> None:
        self.deadline = float("inf")
        self.stop: Stop | None = None

    def look(self) -> None:
        check_stop(self.stop, "a transfer")
        if time.monotonic() >= self.deadline:
            raise httpcore2.ReadTimeout("it took too long")


class GuardedBackend(httpcore2.NetworkBackend):
    """Connects only to addresses that the rules allow.

    The name is resolved here, once; all of its addresses must be allowed; and the connection goes to one of exactly
    these. So changing a name's addresses between the check and the connection has no effect.
    """

    def __init__(self, rules: Rules, watch: Watch, resolve: Resolve = system_addresses) -> None:
        self._rules = rules
        self._watch = watch
        self._resolve = resolve
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        failure: httpcore2.ConnectError | httpcore2.ConnectTimeout = httpcore2.ConnectError(f"{host} has no address")
        for address in self._checked(host, port):
            self._watch.look()
            try:
                stream = self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return WatchedStream(stream, self._watch)
        raise failure

    def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore2.NetworkStream:
        raise BadValue("URL", path, "is a local socket")

    def _checked(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"the name {host} cannot be resolved: {error}") from error
        for address in addresses:
            if why := why_not_address(address, self._rules):
                raise BadValue("host", host, f"may not be connected to: {why}")
        return addresses


class WatchedStream(httpcore2.NetworkStream):
    """A connection whose reads end at the thread's limits, however slowly the other side sends."""

    def __init__(self, inner: httpcore2.NetworkStream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        silent_until = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            self._watch.look()
            try:
                return self._inner.read(max_bytes, LOOK_SECONDS)
            except httpcore2.ReadTimeout:
                if time.monotonic() >= silent_until:
                    raise httpcore2.ReadTimeout("no data arrived for too long") from None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._watch.look()
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *args: Any, **kwargs: Any) -> httpcore2.NetworkStream:
        return WatchedStream(self._inner.start_tls(*args, **kwargs), self._watch)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
