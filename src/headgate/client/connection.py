"""Requests to a service: sending them, repeating them where that is safe, and raising the errors that it reports."""

from __future__ import annotations

import math
import os
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headgate.calls.actor import actor
from headgate.calls.deadlines import BULK_SECONDS, current, within
from headgate.client.errors import raise_problem
from headgate.core.errors import KeyInUse, MissingExtra, StoreUnavailable
from headgate.core.problems import TYPE, word_of
from headgate.core.values.redaction import mask
from headgate.service.access.identity import new_request_id, owner
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions

#: Seconds that a request may take beyond the call's deadline: the service answers by the deadline, and its answer still
#: has to arrive. Maximum time for opening a connection.
ALLOWANCE_SECONDS = 1.0
#: The minimum timeout of a phase when the time is over: a socket takes zero for "do not wait at all".
SHORTEST_SECONDS = 0.001
#: The service's answer while the first of two requests with the same key is running, and the pause before the next
#: attempt.
KEY_IN_USE, RUNNING_SECONDS = f"{TYPE}{word_of(KeyInUse)}".encode(), 0.1


class ServiceConnection:
    """A connection of this process to a service. Threads may share it; a forked child opens its own."""

    def __init__(self, url: str, api_token: str, options: StoreOptions = DEFAULT_OPTIONS) -> None:
        #: Its name in error messages.
        self.name = mask(url.rstrip("/"))
        self._base = url.rstrip("/") + "/v1"
        self._token = api_token
        self.options = options
        #: By process.
        self._clients: dict[int, Any] = {}

    def get(self, *path: str, wait: float | None = None, **query: Any) -> Any:
        """Send a GET request. `wait`: the service may hold the request for that many seconds."""
        return self._ask("GET", path, query=dict(query, wait=wait), wait=wait or 0)

    def send(
        self, method: str, *path: str, body: Any = None, request_id: str | None = None, again: bool = True,
        wait: float = 0, **query: Any,
    ) -> Any:  # fmt: skip
        """Send a request that may be repeated when its answer is lost: either a repeat does no harm, or the store
        recognises it by its `request_id`. `again=False`: never repeat it.
        """
        name = None if request_id is None else ("Headgate-Request", request_id)
        return self._ask(method, path, lambda: {"json": body}, name=name, query=query, again=again, wait=wait)

    def once(self, *path: str, body: Any = None, wait: float = 0, **query: Any) -> Any:
        """POST a request that must not take effect twice: the service recognises a repeat by its key."""
        name = ("Idempotency-Key", new_request_id())
        return self._ask("POST", path, lambda: {"json": body}, name=name, query=query, wait=wait)

    def upload(self, file: Path, *path: str, **query: Any) -> Any:
        """Send a file. There is no limit for the whole transfer, only for each part."""
        name = ("Idempotency-Key", new_request_id())
        with file.open("rb") as content, within(BULK_SECONDS, slow=True):

            def from_its_start() -> dict[str, Any]:
                content.seek(0)
                return {"content": content}

            return self._ask("POST", path, from_its_start, name=name, query=query)

    def close(self) -> None:
        """Close all connections."""
        if client := self._clients.get(os.getpid()):
            client.close()

    def _ask(
        self, method: str, path: tuple[str, ...], sent: Callable[[], Mapping[str, Any]] = dict, *,
        name: tuple[str, str] | None = None, query: Mapping[str, Any], again: bool = True, wait: float = 0,
    ) -> Any:  # fmt: skip
        """`sent`: returns the body, for each attempt. `name`: the header by which the service recognises a repeat."""
        client, httpx = self._open()
        url = self._base + "".join(f"/{_quoted(part)}" for part in path)
        key = None if name is None else name[1]
        headers = {"Headgate-Client": owner(), **_override(), **({} if name is None else dict([name]))}
        given = {name: _text(value) for name, value in query.items() if value is not None}

        deadline = current(wait + self.options.answer_within)
        ends = deadline.until + ALLOWANCE_SECONDS

        def ask() -> Any:
            self._check_alive(client, slow=deadline.slow)
            # A large body may take any time as long as data flows: each piece has the whole limit.
            timeout = {"timeout": _each_phase(deadline.left) if deadline.slow else _TimeLeft(ends)}
            request = client.build_request(method, url, params=given, **sent(), headers=headers, extensions=timeout)
            return _read_until(math.inf if deadline.slow else ends, client.send(request, stream=True), httpx)

        try:
            answer = _answered(ask, httpx, deadline.until, again=again)
        except httpx.HTTPError as error:
            raise self._unavailable(error, key, outcome=_outcome(httpx, error, method)) from error
        except RuntimeError as error:
            if not client.is_closed:
                raise
            raise StoreUnavailable(self.name, "this client has closed the connection", key) from error
        if answer.status_code == 204:
            return None
        if not answer.is_success:
            raise_problem(self.name, answer, key)
        try:
            return answer.json()
        except ValueError:  # A proxy's page.
            why = f"it answers {answer.status_code} without JSON; is it a Headgate service?"
            raise StoreUnavailable(self.name, why, key) from None

    def _check_alive(self, client: Any, *, slow: bool) -> None:
        """Before a request with a long answer, send one that is answered at once: silence would prove nothing."""
        if slow:
            timeout = {"timeout": _TimeLeft(time.monotonic() + self.options.answer_within)}
            client.get(self._base.removesuffix("/v1") + "/healthz", extensions=timeout)

    def _unavailable(self, error: Exception, key: str | None, outcome: str) -> StoreUnavailable:
        why = str(error) or type(error).__name__
        if "timeout" in type(error).__name__.lower():
            why = "no answer arrived in time"
        return StoreUnavailable(self.name, why, key, outcome)

    def _open(self) -> tuple[Any, Any]:
        """Return the HTTP client of this process: a forked child creates its own."""
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("service", "connecting to a service needs httpx2") from None
        client = self._clients.get(os.getpid())
        if client is None:
            made = self._make(httpx2)
            client = self._clients.setdefault(os.getpid(), made)
            if client is not made:  # Another thread was first.
                made.close()
        return client, httpx2

    def _make(self, httpx2: Any) -> Any:
        # The environment's proxies and passwords are not used: the token is sent only to the service.
        return httpx2.Client(
            headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20),
            verify=_certificates() if self._base.startswith("https:") else False,
            trust_env=False, follow_redirects=False,
        )  # fmt: skip


def _override() -> dict[str, str]:
    """The header with the reason for overriding other principals, if there is one."""
    why = actor().override
    return {"Headgate-Override": quote(why, safe=" ")} if why else {}


class _TimeLeft(dict[str, float]):
    """Timeouts of a request as its transport reads them: each phase gets the time that is left until one moment.

    The library's own timeouts restart with each phase (connect, write, read), so that a call could last for the sum of
    them.
    """

    def __init__(self, ends: float) -> None:
        super().__init__()
        self._ends = ends

    def get(self, phase: str, default: Any = None) -> Any:
        """Remaining seconds; at most ALLOWANCE_SECONDS for opening a connection."""
        del default
        left = max(self._ends - time.monotonic(), SHORTEST_SECONDS)
        return min(left, ALLOWANCE_SECONDS) if phase == "connect" else left


def _each_phase(seconds: float) -> dict[str, float]:
    """Return timeouts for a request with a limit for each phase, and a shorter one for connecting."""
    return dict.fromkeys(("pool", "write", "read"), seconds) | {"connect": min(seconds, ALLOWANCE_SECONDS)}


def _read_until(ends: float, answer: Any, httpx: Any) -> Any:
    """The whole answer. Raises ReadTimeout when its body has not ended at that moment (monotonic)."""
    pieces = []
    try:
        for piece in answer.iter_raw():
            pieces.append(piece)
            if time.monotonic() > ends:
                raise httpx.ReadTimeout("the answer did not finish in time", request=answer.request)
    finally:
        answer.close()
    return httpx.Response(answer.status_code, headers=answer.headers, content=b"".join(pieces))


def _answered(ask: Callable[[], Any], httpx: Any, until: float, *, again: bool) -> Any:
    """The answer; requested once more when the connection was cut, if that does no harm.

    The service may still be busy with the first request, whose answer was lost: it is repeated until that one is done,
    or until that moment (monotonic).
    """
    try:
        return ask()
    except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
        if not again:
            raise
        try:
            answer = ask()
            while _is_running(answer) and time.monotonic() < until:
                time.sleep(RUNNING_SECONDS)
                answer = ask()
        except _never_sent(httpx):
            raise error from None  # The first request may have taken effect even if this one did not.
        return answer


def _is_running(answer: Any) -> bool:
    return answer.status_code == 409 and KEY_IN_USE in answer.content


def _outcome(httpx: Any, error: Exception, method: str) -> str:
    """Whether a failed request may have taken effect. A GET has none, nor has a request that was never sent."""
    return "none" if method == "GET" or isinstance(error, _never_sent(httpx)) else "unknown"


def _never_sent(httpx: Any) -> tuple[type[Exception], ...]:
    """Errors of requests that did not reach the service."""
    return httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout


@cache
def _certificates() -> ssl.SSLContext:
    """Trusted certificates: this machine's list, or SSL_CERT_FILE. Cached: reading it takes longer than a request."""
    return ssl.create_default_context()


def _quoted(part: str) -> str:
    """A segment of a path; dots alone would be taken for a folder."""
    quoted = quote(part, safe="")
    return quoted.replace(".", "%2E") if set(part) == {"."} else quoted


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, list) else str(value)
