"""ZooKeeper sessions: one for all locks, one for each lease length of items, and the conversion of kazoo's errors."""

from __future__ import annotations

import atexit
import math
import os
import select as poll
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Self

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import CloseInstance, Connect
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry, RetryFailedError

from headgate.calls.deadlines import time_limit
from headgate.core.errors import BadValue, HeadgateError, StoreMisconfigured, StoreUnavailable
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions
from headgate.stores.tls import OFF, Tls
from headgate.stores.zookeeper.ensemble.asking import Question, Watch, children
from headgate.stores.zookeeper.ensemble.servers import Servers
from headgate.stores.zookeeper.ensemble.versions import ASK_SERVER, Version, member_version
from headgate.telemetry import logger

#: Maximum silence in milliseconds after which a connection counts as dead, however long its session is.
SILENCE = 10_000
#: Seconds to connect to one server before the next one is tried.
CONNECT_SECONDS = 3.0
#: Length in seconds of the shortest session: kazoo lets up to 0.4 of it pass between two signs of life.
SHORTEST = 1.0
#: The pause before a lost connection is retried.
RETRY_SECONDS = 0.05

#: Advice for a server whose certificate is not trusted.
CERTIFICATE = "Name the authority that signed it (tls_ca=FILE in the URL), and use the host name in the certificate"

#: Answers about nodes, which callers handle.
ANSWERS: tuple[type[Exception], ...] = (
    kazoo.NoNodeError, kazoo.NodeExistsError, kazoo.BadVersionError, kazoo.NotEmptyError,
    kazoo.RolledBackError, kazoo.RuntimeInconsistency, kazoo.NoChildrenForEphemeralsError,
)  # fmt: skip
#: It is unknown whether it took effect, or it did not: check, and retry while there is time.
INTERRUPTIONS: tuple[type[Exception], ...] = (
    kazoo.ConnectionLoss, kazoo.SessionExpiredError, kazoo.SessionMovedError, kazoo.OperationTimeoutError,
    kazoo.RequestTimeoutError, kazoo.ConnectionDropped, kazoo.ThrottledOpError, kazoo.NotReadOnlyCallError,
    kazoo.ConnectionClosedError, kazoo.CancelledError, kazoo.ZookeeperStoppedError, KazooTimeoutError,
)  # fmt: skip
#: The server answers, but cannot do it.
FAILURES: tuple[type[Exception], ...] = (
    kazoo.SystemZookeeperError, kazoo.DataInconsistency, kazoo.MarshallingError, kazoo.UnimplementedError,
    kazoo.BadArgumentsError, kazoo.UnknownSessionError, kazoo.NewConfigNoQuorumError, kazoo.ReconfigInProcessError,
    kazoo.APIError, kazoo.InvalidCallbackError, kazoo.EphemeralOnLocalSessionError, kazoo.NoWatcherError,
    kazoo.ReconfigDisabledError, kazoo.QuotaExceededError, kazoo.LockTimeout, kazoo.WriterNotClosedException,
    RetryFailedError,
)  # fmt: skip
#: The server denies access.
FORBIDDEN: tuple[type[Exception], ...] = (
    kazoo.NoAuthError, kazoo.AuthFailedError, kazoo.InvalidACLError, kazoo.SASLException,
    kazoo.SessionClosedRequireSaslError, kazoo.ConfigurationError,
)  # fmt: skip


class Interrupted(Exception):
    """The connection broke during a change: it may have taken effect. For the stores, never for callers."""


def translate(error: Exception, store: str) -> HeadgateError:
    """Translate an error of kazoo's into one for callers."""
    if isinstance(error, FORBIDDEN):
        return BadValue("url", store, f"names a tree that this user may not access: {type(error).__name__}")
    text = str(error) or type(error).__name__
    return StoreUnavailable(store, text)


def void(*_: object) -> None:
    """Ignore a value."""


class _Answer(AsyncResult):  # type: ignore[misc]
    """A future answer, which runs its callbacks on the connection's own thread."""

    def _do_callbacks(self) -> None:
        for callback in self._callbacks:
            _call(callback, self)


def _call(work: Callable[..., object], *args: object) -> None:
    try:
        work(*args)
    except Exception:  # noqa: BLE001 - whatever it is, the connection goes on
        logger.exception("zookeeper.callback_failed")


def _call_each(works: Iterable[Callable[[], object]]) -> None:
    for work in works:
        _call(work)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Kazoo's threads, but trying each server only for a few seconds, and waiting at lower cost."""

    def __init__(self, tls: Tls) -> None:
        super().__init__()
        self._context = tls.context()

    def create_connection(self, address: tuple[str, int], *, hostname: str, timeout: float, **_: Any) -> Any:
        # Kazoo reads all authorities for each connection, and leaves it open when the server is not trusted.
        made = super().create_connection(address, timeout=min(timeout, CONNECT_SECONDS))
        if self._context is None:
            return made
        try:
            return self._context.wrap_socket(made, server_hostname=hostname)
        except BaseException:
            made.close()
            raise

    def dispatch_callback(self, callback: Any) -> None:
        # Our callbacks never block, so the connection's own thread can run them without waking another.
        _call(callback.func, *callback.args)

    def async_result(self) -> Any:
        return _Answer(self)

    def select(self, readers: Any, writers: Any, _broken: Any, timeout: float | None = None) -> Any:
        # Kazoo creates and closes an epoll each time, twenty times for one lock: half of all its work.
        ready = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if ready:  # Already decrypted: no more data has to arrive from the network.
            return ready, [], []
        waiting, sockets = poll.poll(), {}
        for event, some in ((poll.POLLIN, readers), (poll.POLLOUT, writers)):
            for each in some:
                waiting.register(each, event)
                sockets[each.fileno()] = each
        ready = [sockets[number] for number, _ in waiting.poll(None if timeout is None else timeout * 1000)]
        return ([], ready, []) if writers else (ready, [], [])


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Kazoo's connection, extended: it knows the session length that the server agreed to, and notices silence.

    Kazoo detects a dead connection by a ping, which it sends only when there are no requests: under load, never.
    """

    lease = 0.0
    #: Why the certificate of the last server is not trusted; empty: it is, or there is none.
    untrusted = ""
    #: On the monotonic clock: since when an answer has been outstanding without any data.
    _silent_since = 0.0

    @classmethod
    def put_into(cls, client: Any) -> Self:
        """Replaces the one that the client created for itself."""
        old = client._connection  # noqa: SLF001 - kazoo has no other way
        new = cls(client, old.retry_sleeper, logger=old.logger, sasl_options=old.sasl_options)
        client._connection = new  # noqa: SLF001 - the same
        return new

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        greeting = isinstance(request, Connect)
        answer = super()._invoke(min(timeout, CONNECT_SECONDS) if greeting else timeout, request, xid)
        if greeting:
            self.lease = answer[0].time_out / 1000
            # Requests from the time without a connection must not be sent now: nobody waits for them any more.
            self.client._notify_pending(KeeperState.CONNECTING)  # noqa: SLF001 - kazoo has no other way
            if self.client._stopped.is_set():  # noqa: SLF001 - the same
                self.client._queue.append((CloseInstance, None))  # noqa: SLF001 - the same
        return answer

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        if not self.client._pending:  # noqa: SLF001 - kazoo has no other way
            self._silent_since = time.monotonic()
        elif time.monotonic() > self._silent_since + read_timeout:
            raise ConnectionDropped("no answer arrived")
        super()._send_request(read_timeout, connect_timeout)

    def _read_socket(self, read_timeout: float) -> Any:
        self._silent_since = time.monotonic()
        return super()._read_socket(read_timeout)

    def _read(self, length: int, timeout: float) -> bytes:
        # The answers have usually arrived: checking before each part costs more than reading it.
        with self._socket_error_handling():
            try:
                part: bytes = self._socket.recv(length)
            except (BlockingIOError, ssl.SSLWantReadError):
                part = b""
            else:
                if not part:
                    raise ConnectionDropped("socket connection broken")
        return part if len(part) == length else part + bytes(super()._read(length - len(part), timeout))

    def _write(self, message: bytes, timeout: float) -> None:
        with self._socket_error_handling():
            try:
                sent = self._socket.send(message)
            except (BlockingIOError, ssl.SSLWantWriteError):
                sent = 0
        if sent < len(message):
            super()._write(message[sent:], timeout)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        try:
            reading, connecting = super()._connect(host, hostip, port)
        except ConnectionDropped as error:
            self.untrusted = str(error) if isinstance(error.__context__, ssl.SSLCertVerificationError) else ""
            raise
        self.untrusted = ""
        return min(reading, SILENCE), min(connecting, SILENCE)


class ZkSession:
    """Consecutive ZooKeeper sessions of one length; ephemeral nodes of the old one end with it."""

    def __init__(self, servers: Servers, seconds: float, answer_within: Callable[[], float]) -> None:
        self._servers = servers
        #: Seconds that a call may take.
        self._answer_within = answer_within
        #: True: it was ended on purpose, and is not used any more.
        self.closed = False
        self._returns: list[Callable[[], None]] = []
        self._id = 0
        self._client = self._make_client(seconds)
        self._connection = _Connection.put_into(self._client)
        self._client.add_listener(self._state_changed)
        self._live: threading.Event = self._client.start_async()

    @property
    def id(self) -> int:
        """The session's number, also while it is not connected; 0: there is none."""
        present = self._client.client_id
        return int(present[0]) if present else self._id

    @property
    def lease(self) -> float:
        """Seconds for which the server keeps this session without signs of life."""
        return self._connection.lease

    @property
    def connected(self) -> bool:
        """Whether the server is currently connected."""
        return self._live.is_set()

    def ready(self, until: float | None = None) -> Any:
        """The connected client, or StoreUnavailable when there is no connection in time."""
        if not self._live.is_set():
            end = time_limit(self._answer_within()) if until is None else until
            if not self._live.wait(max(end - time.monotonic(), 0)):
                if self._connection.untrusted:
                    raise StoreMisconfigured(self._servers.name, self._connection.untrusted, CERTIFICATE)
                raise StoreUnavailable(self._servers.name, "none of its servers can be reached", outcome="none")
        return self._client

    @property
    def name(self) -> str:
        """The store's name in error messages."""
        return self._servers.name

    def ask(self, *questions: Question) -> list[Any]:
        """Send all at once, and return the answers in order; repeated if the connection breaks. For reading."""
        until = time_limit(self._answer_within())
        while True:
            client = self.ready(until)
            try:
                return [self._answer(sent, until) for sent in [question(client) for question in questions]]
            except INTERRUPTIONS as error:
                if time.monotonic() >= until:
                    raise translate(error, self._servers.name) from error
                time.sleep(RETRY_SECONDS)

    def names(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children; empty if there is no such node."""
        found = self.ask(children(path, watch))[0]
        return [] if isinstance(found, Exception) else list(found)

    def change(self, *questions: Question) -> list[Any]:
        """Send all at once, and only once: Interrupted when an answer is lost."""
        until = time_limit(self._answer_within())
        client = self.ready(until)
        try:
            return [self._answer(sent, until) for sent in [question(client) for question in questions]]
        except INTERRUPTIONS as error:
            raise Interrupted(str(error) or type(error).__name__) from error

    def member_version(self) -> Version | None:
        """The version of this session's server; None if it stands alone, does not report it, or requires TLS."""
        client = self.ready()
        if self._servers.tls.mode != OFF:
            return None
        with suppress(OSError, kazoo.KazooException, KazooTimeoutError):
            return member_version(client.command(ASK_SERVER))
        return None

    def send(self, question: Question, answered: Callable[[Any], None] = void) -> None:
        """Send it before the next requests, without waiting: kazoo's thread runs the callback."""
        question(self._client).rawlink(answered)

    def on_return(self, work: Callable[[], None]) -> None:
        """Run it once, in a thread, when the server is connected again; never if this was closed meanwhile."""
        if self.closed:
            return
        self._returns.append(work)
        if self.connected:
            self._run_returns()

    def close(self) -> None:
        """End the session: its ephemeral nodes are removed at once."""
        self.closed = True
        self._returns = []
        with suppress(*FAILURES, *INTERRUPTIONS):
            self._client.stop()
            self._client.close()

    def disown(self) -> None:
        """It belongs to a parent process: leave it alone."""
        atexit.unregister(self._client.handler.stop)

    def _answer(self, sent: Any, until: float) -> Any:
        try:
            return sent.get(timeout=max(until - time.monotonic(), 0.001))
        except ANSWERS as answer:
            return answer
        except (*FAILURES, *FORBIDDEN) as error:
            if isinstance(error, INTERRUPTIONS):
                raise
            raise translate(error, self._servers.name) from error

    def _make_client(self, seconds: float) -> Any:
        handler = _Handler(self._servers.tls)
        retry = KazooRetry(max_tries=-1, delay=RETRY_SECONDS, max_delay=1.0, sleep_func=handler.sleep_func)
        return KazooClient(
            hosts=self._servers.hosts,
            timeout=seconds,
            handler=handler,
            connection_retry=retry,
            auth_data=self._servers.auth,
            default_acl=self._servers.acl,
            logger=self._servers.logger,
        )

    def _state_changed(self, state: str) -> None:
        """Called by kazoo's own thread, which must not block."""
        if state == KazooState.LOST:
            self._id = 0
        elif state == KazooState.CONNECTED:
            self._id = self.id
            self._run_returns()

    def _run_returns(self) -> None:
        returns, self._returns = self._returns, []
        if returns:
            _in_thread(lambda: _call_each(returns))


class ZkSessions:
    """All sessions of this process with one store, each created on first use."""

    def __init__(self, servers: Servers, options: StoreOptions = DEFAULT_OPTIONS) -> None:
        self._servers = servers
        self.options = options
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._by_length: dict[float, ZkSession] = {}
        self._inherited: list[ZkSession] = []
        #: Functions that run before they end.
        self.endings: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """The store's name in error messages."""
        return self._servers.name

    @property
    def answer_within(self) -> float:
        """Seconds that a call may take: the URL's `patience`, else the setting `answer_within`."""
        patience = self._servers.patience
        return self.options.answer_within if patience is None else patience

    @property
    def base(self) -> ZkSession:
        """The session of everything except the items that daemons take."""
        return self._session(self._servers.session)

    def leasing(self, lease: float | None) -> ZkSession:
        """The session for items with that lease length, connected, so that its actual length is known."""
        if lease is None:
            return self.base
        session = self._session(rounded(lease))
        session.ready()
        return session

    def close(self) -> None:
        """End all of them. The next call that needs one creates it again."""
        for ending in self.endings if self._by_length else ():
            ending()
        with self._guard:
            ours, self._by_length = list(self._by_length.values()), {}
        if self._pid == os.getpid():
            for session in ours:
                session.close()

    def _session(self, seconds: float) -> ZkSession:
        if self._pid != os.getpid():
            self._leave_to_parent()
        found = self._by_length.get(seconds)
        return found or self._make(seconds)

    def _make(self, seconds: float) -> ZkSession:
        with self._guard:
            if seconds not in self._by_length:
                self._by_length[seconds] = ZkSession(self._servers, seconds, lambda: self.answer_within)
            return self._by_length[seconds]

    def _leave_to_parent(self) -> None:
        """After a fork: the sessions belong to the parent, and their threads were not copied."""
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._inherited += self._by_length.values()
        for session in self._by_length.values():
            session.disown()
        self._by_length = {}


@lru_cache
def rounded(lease: float) -> float:
    """Up to two significant digits, so that there are few different lengths; not shorter than kazoo can keep alive."""
    lease = max(lease, SHORTEST)
    step: float = 10.0 ** (math.floor(math.log10(lease)) - 1)
    return round(math.ceil(round(lease / step, 6)) * step, 6)


def _in_thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, name="headgate-zookeeper", daemon=True).start()


def windows(items: Sequence[Any], size: int = 500) -> Iterable[Sequence[Any]]:
    """The items in portions that limit the number of requests under way."""
    return (items[start : start + size] for start in range(0, len(items), size))
