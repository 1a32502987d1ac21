"""Headers of trusted proxies: the origin, scheme and host of a request. Those of other callers are ignored."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.core.errors import BadValue

#: No proxy is trusted.
NONE = "none"
#: The origin of a request whose proxy reports something that is not an address.
UNKNOWN = "unknown"
_FOR, _PROTO, _HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_HOST_FORM = re.compile(rb"[A-Za-z0-9._\-]{1,253}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?")
_PORT = re.compile(r"(?<=[0-9])(?<!:[0-9]):[0-9]+$|(?<=\]):[0-9]+$")


class Trusted:
    """The addresses and networks of the setting `trusted_proxies`."""

    def __init__(self, text: str) -> None:
        """BadValue for what is neither an address nor a network."""
        self._networks: list[IPv4Network | IPv6Network] = []
        self._known: dict[str, bool] = {}
        for part in () if text.strip() == NONE else filter(None, (each.strip() for each in text.split(","))):
            try:
                self._networks.append(ip_network(part))
            except ValueError as error:
                raise BadValue("trusted_proxies", part, f"is not an address or network: {error}") from None

    def __contains__(self, address: str) -> bool:
        found = self._known.get(address)
        if found is None:
            if len(self._known) > 10_000:
                self._known.clear()
            parsed = parse_address(address)
            found = self._known[address] = parsed is not None and any(parsed in each for each in self._networks)
        return found

    def origin(self, peer: str, forwarded: str) -> str:
        """Return the origin of a request: the last address in the header that is not a trusted proxy's.

        Everything before that was written by an untrusted sender. `peer` is trusted.
        """
        found = peer
        for part in reversed([each for each in forwarded.split(",") if each.strip()]):
            parsed = parse_address(part)
            if parsed is None:
                return UNKNOWN
            found = str(parsed)
            if found not in self:
                break
        return found


class Proxied:
    """Reads the headers of trusted proxies, so that everything after it sees the real caller."""

    def __init__(self, app: ASGIApp, trusted: Trusted) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        client = scope.get("client")
        if scope["type"] == "http" and client and client[0] in self._trusted:
            said = [each for each in scope["headers"] if each[0].startswith(b"x-forwarded-")]
            if said:
                scope.update(
                    self._as_said(scope, said, client)
                )  # Changed in place: the connection reads who was admitted.
        await self._app(scope, receive, send)

    def _as_said(self, scope: Scope, said: list[tuple[bytes, bytes]], client: tuple[str, int]) -> dict[str, Any]:
        """Return the values that differ from the connection's own."""
        changed: dict[str, Any] = {}
        if forwarded := b",".join(value for name, value in said if name == _FOR):
            changed["client"] = (self._trusted.origin(client[0], forwarded.decode("latin-1")), 0)
        if (scheme := _last(said, _PROTO)) in (b"http", b"https"):
            changed["scheme"] = scheme.decode()
        if _HOST_FORM.fullmatch(host := _last(said, _HOST)):
            kept = [each for each in scope["headers"] if each[0] != b"host"]
            changed["headers"] = [(b"host", host), *kept]
        return changed


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, possibly with a port, in brackets, or IPv4 in IPv6 notation; None: it is not an address."""
    try:
        found = ip_address(_PORT.sub("", text.strip()).strip("[]"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _last(said: list[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """The nearest proxy's value."""
    return next((value.rpartition(b",")[2].strip().lower() for name, value in reversed(said) if name == wanted), b"")
