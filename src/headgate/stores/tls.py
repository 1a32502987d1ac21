"""The trust of connections to a store: on another machine, a server has to present a certificate that is verified."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.core.errors import BadValue

if TYPE_CHECKING:
    from ssl import SSLContext

#: Values of the URL option `tls`. Verify: the server's certificate must be valid and name the host. Unverified: the
#: connection is encrypted, but the server is not checked. Off: it is not encrypted.
VERIFY, UNVERIFIED, OFF = "verify", "unverified", "off"
MODES = (VERIFY, UNVERIFIED, OFF)
#: The URL options that are read here.
OPTIONS = ("tls", "tls_ca", "tls_cert", "tls_key")


@dataclass(frozen=True, slots=True)
class Tls:
    """How a connection is encrypted."""

    #: One of MODES; empty: the URL does not set it.
    mode: str = ""
    #: Files: the authorities to trust instead of the machine's own, and the client certificate with its key.
    ca: str = ""
    cert: str = ""
    key: str = ""

    def or_else(self, mode: str) -> Tls:
        """The same with this mode, if the URL sets none."""
        return self if self.mode else Tls(mode, self.ca, self.cert, self.key)

    def context(self) -> SSLContext | None:
        """The TLS context for Python's sockets; None: they are not encrypted, or the URL does not set it."""
        if self.mode in ("", OFF):
            return None
        import ssl  # Imported when needed: the command starts faster without it.

        context = ssl.create_default_context(cafile=self.ca or None)
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        if self.mode == UNVERIFIED:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


#: A connection that is not encrypted.
NO_TLS = Tls(OFF)


def take_options(options: dict[str, str], url: str) -> Tls:
    """The encryption options of a URL; they are removed from the options."""
    mode, ca, cert, key = (options.pop(name, "") for name in OPTIONS)
    if mode and mode not in MODES:
        raise BadValue("url", url, f"has tls={mode}, which is unknown; known: {', '.join(MODES)}")
    if bool(cert) != bool(key):
        raise BadValue("url", url, "has only one of tls_cert and tls_key; give both")
    for file in filter(None, (ca, cert, key)):
        if not os.access(file, os.R_OK):
            raise BadValue("url", url, f"names {file}, which is not a readable file")
    if (ca or cert) and not mode:
        mode = VERIFY
    if ca and mode != VERIFY:
        raise BadValue("url", url, f"has tls_ca, which has no effect with tls={mode}; write tls=verify")
    made = Tls(mode, ca, cert, key)
    try:
        made.context()
    except OSError as error:
        raise BadValue("url", url, f"names a file that is not a valid certificate or key: {error}") from None
    return made


def stays_here(host: str) -> bool:
    """Whether a connection to that host never leaves this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if not name or name.startswith(("/", "@")) or name == "localhost":  # Names below it are resolved by the network.
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def all_stay_here(hosts: Iterable[str]) -> bool:
    """The same for several hosts."""
    return all(stays_here(host) for host in hosts)
