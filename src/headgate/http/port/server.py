"""The service on a port: started, answering, and shut down in order."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from headgate.core.errors import BadValue
from headgate.http.app import make_app
from headgate.http.limits.bounds import Limits
from headgate.http.port.connections import bounded
from headgate.http.port.tls import TlsListener
from headgate.http.service import Service

#: The time that running requests have to end at a stop.
GRACE_SECONDS = 5
#: Number of connections that may wait to be accepted.
BACKLOG = 2048
#: Files that are open besides connections: the store's, and those being uploaded.
OTHER_FILES = 500


class _Uvicorn(uvicorn.Server):
    """Installs no signal handlers."""

    limits = Limits()

    def install_signal_handlers(self) -> None:
        """Install none."""

    def capture_signals(self) -> object:  # type: ignore[override] # a context manager
        from contextlib import nullcontext

        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; with TLS by our own listener."""
        context = self.config.ssl
        if context is None or sockets is None:
            await super().startup(sockets)
            return
        for each in sockets:  # Connections that arrive from here on are accepted shortly.
            each.listen(BACKLOG)
        await super().startup([])
        self.servers += [TlsListener(each, context, self._protocol, self.limits) for each in sockets]  # type: ignore[misc]

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


class Server:
    """One service, answering in its own thread."""

    def __init__(self, service: Service, listen: str, tls: tuple[str, str] | None = None) -> None:
        self.service = service
        self._socket = bind(listen)
        host, port = self._socket.getsockname()[:2]
        #: Where it answers.
        self.url = f"http{'s' if tls else ''}://" + (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        allow_files(
            service.limits.connections * (2 if tls else 1) + OTHER_FILES
        )  # The same number during the handshake.
        certificate, key = tls or (None, None)
        config = uvicorn.Config(
            make_app(service), log_config=None, access_log=False, lifespan="on", server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS, backlog=BACKLOG, http=bounded(service.limits), ws="none",
            timeout_keep_alive=service.limits.idle_seconds, h11_max_incomplete_event_size=service.limits.head,
            ssl_certfile=certificate, ssl_keyfile=key, proxy_headers=False,
        )  # fmt: skip
        self._server = _Uvicorn(config)
        self._server.limits = service.limits
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headgate-http", daemon=True)

    def start(self, ended: Callable[[], None] = lambda: None) -> None:
        """Start to answer. `ended` is called when the server has stopped."""
        self._ended = ended
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            threading.Event().wait(0.005)
        if self._failed:
            raise self.service.failed or self._failed

    def stop(self) -> None:
        """Stop: running requests finish, waiting ones are refused."""
        self._server.should_exit = True
        self.service.end()
        self._thread.join(GRACE_SECONDS + 1)
        with suppress(OSError):
            self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:  # noqa: BLE001 - raised again by who started it
            self._failed = error
        finally:
            self._ended()


def allow_files(count: int) -> None:
    """Raise the limit of open files as far as allowed: each connection is one, and 1,024 is the usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind(listen: str) -> socket.socket:
    """A socket on HOST:PORT; port 0 is any free one."""
    host, port = parse_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is given explicitly, because otherwise asyncio delays small answers: 40 ms each.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise BadValue(
            "listen",
            listen,
            f"cannot be opened: {error.strerror or error}; choose another address with --listen (port 0: any)",
        ) from error
    return found


def parse_address(listen: str) -> tuple[str, int]:
    """Host and port."""
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65536):
        raise BadValue("listen", listen, "is not HOST:PORT, as in 127.0.0.1:8750")
    return host.strip("[]"), int(port)
