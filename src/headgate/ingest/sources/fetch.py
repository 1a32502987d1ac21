"""Fetching untrusted URLs: a guarded HTTP client, and files below allowed folders."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, unquote

from headgate.core.errors import BadPayload, BadValue, HeadgateError, MissingExtra, ServiceRefused, ServiceUnavailable
from headgate.core.values.redaction import shown
from headgate.ingest.formats.hashing import BLOCK
from headgate.ingest.retries import seconds_of
from headgate.ingest.safe_files import open_beneath
from headgate.ingest.sources.buckets import Buckets
from headgate.ingest.sources.guard import GuardedBackend, Resolve, Rules, Watch, check_url, system_addresses
from headgate.ingest.stopping import Stop, check_stop

try:
    import httpcore2
    import httpx2
except ImportError as error:
    raise MissingExtra("ingest", "Fetching needs httpx2") from error

#: Statuses that may change later.
LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
#: Among these: the server has not started.
_NOT_BEGUN = frozenset({425, 429, 503})
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_LONGEST_RETRY_AFTER = 3600.0
#: Largest answer of a protocol over HTTP.
_ANSWER_BYTES = 1 << 20
#: A file that was last changed this long before it was sent is identified by that time.
_SETTLED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Head:
    """A server's statements about a file. Only the bytes themselves prove anything."""

    #: None: it does not say.
    size: int | None
    #: Identifies its content (a strong ETag, else the time of its last change); empty: nothing does.
    validator: str


@dataclass(frozen=True, slots=True)
class Download:
    """An answer whose body has not been read yet."""

    head: Head
    #: The offset of the first byte in the file: as requested, or 0.
    offset: int
    blocks: Iterator[bytes]


class GuardedTransport(httpx2.BaseTransport):
    """Every request of a client passes through here, so no user of the client can bypass the rules."""

    def __init__(self, rules: Rules, resolve: Resolve = system_addresses) -> None:
        self.rules = rules
        self.watch = Watch()
        self._pool = httpcore2.ConnectionPool(
            max_connections=None, keepalive_expiry=15.0, network_backend=GuardedBackend(rules, self.watch, resolve)
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        check_url(url, self.rules)
        with translated(url), self._answer_in_time():
            answer = self._pool.handle_request(_core_request(request))
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_BodyStream(answer, url),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _answer_in_time(self) -> Iterator[None]:
        whole = self.watch.deadline
        self.watch.deadline = min(whole, time.monotonic() + self.rules.answer_seconds)
        try:
            yield
        finally:
            self.watch.deadline = whole


class _BodyStream(httpx2.SyncByteStream):
    def __init__(self, answer: httpcore2.Response, url: str) -> None:
        self._answer = answer
        self._url = url

    def __iter__(self) -> Iterator[bytes]:
        with translated(self._url):
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Converts the HTTP library's errors to ours. All of them are temporary."""
    try:
        yield
    except httpcore2.ConnectTimeout as error:
        raise ServiceUnavailable(shown(url), "it could not be connected in time", outcome="none") from error
    except httpcore2.ConnectError as error:
        raise ServiceUnavailable(shown(url), str(error) or "it could not be connected", outcome="none") from error
    except httpcore2.TimeoutException as error:
        raise ServiceUnavailable(shown(url), str(error) or "it took too long") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError) as error:
        raise ServiceUnavailable(shown(url), str(error) or "the connection was lost") from error


class Fetcher:
    """Opens URLs according to the rules. One for many threads; close it at the end."""

    def __init__(self, rules: Rules, resolve: Resolve = system_addresses) -> None:
        self.rules = rules
        self._transport = GuardedTransport(rules, resolve)
        self._buckets = Buckets(rules)
        timeout = httpx2.Timeout(rules.idle_seconds, connect=rules.connect_seconds, pool=None)
        #: For other protocols over HTTP (callbacks, EZID): the same guard checks every request.
        self.client = httpx2.Client(
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            timeout=timeout,
            headers={"Accept-Encoding": "identity", "User-Agent": "headgate"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def head(self, url: str) -> Head:
        """The server's statements about the file, without its bytes."""
        parts = check_url(url, self.rules)
        if parts.scheme == "file":
            with _opened_file(parts, self.rules) as descriptor:
                return _file_head(descriptor)
        if parts.scheme == "s3":
            return Head(*self._buckets.find(parts))
        with self.watched(None), ExitStack() as stack:
            answer = stack.enter_context(self._answer("HEAD", url, {}))
            if answer.status_code in (405, 501):
                answer = stack.enter_context(self._answer("GET", url, {}))
            _check_status(answer, url)
            return _head(answer)

    @contextmanager
    def open(self, url: str, offset: int = 0, validator: str = "", stop: Stop | None = None) -> Iterator[Download]:
        """The bytes of a file from `offset` on if the validator still matches; else all of it."""
        parts = check_url(url, self.rules)
        if parts.scheme == "file":
            with _opened_file(parts, self.rules) as descriptor:
                yield _file_body(descriptor, offset, validator, stop)
            return
        if parts.scheme == "s3":
            yield self._body_in_bucket(parts, offset, validator, stop)
            return
        headers = {"Range": f"bytes={offset}-", "If-Range": validator} if offset and validator else {}
        with self.watched(stop), ExitStack() as stack:
            answer = stack.enter_context(self._answer("GET", url, headers))
            if headers and answer.status_code == 416:
                answer = stack.enter_context(self._answer("GET", url, {}))
            _check_status(answer, url)
            _check_encoding(answer, url)
            yield self._body(answer, url, offset if headers else 0)

    def read(self, url: str, max_bytes: int, stop: Stop | None = None) -> bytes:
        """A small file, such as a manifest, completely."""
        found = bytearray()
        with self.open(url, stop=stop) as body:
            for block in body.blocks:
                found += block
                if len(found) > max_bytes:
                    raise BadPayload(shown(url), f"it is larger than {max_bytes:,} bytes")
        return bytes(found)

    def exchange(self, request: httpx2.Request, stop: Stop | None = None) -> httpx2.Response:
        """A request of another protocol over HTTP (made by `client.build_request`), and its answer, which is short.

        Any status is returned; redirects are not followed.
        """
        url = str(request.url)
        with self.watched(stop), closing(self.client.send(request, stream=True)) as answer:
            body = bytearray()
            for block in answer.iter_raw():
                body += block
                if len(body) > _ANSWER_BYTES:
                    raise ServiceUnavailable(shown(url), "its response is incomplete")
            # It is never decoded, whatever its encoding: a short answer may decode to a very long one.
            headers = [pair for pair in answer.headers.multi_items() if pair[0].lower() != "content-encoding"]
            return httpx2.Response(answer.status_code, headers=headers, content=bytes(body), request=request)

    @contextmanager
    def watched(self, stop: Stop | None) -> Iterator[None]:
        """Limit everything that this thread sends and receives within the block."""
        watch = self._transport.watch
        watch.stop, watch.deadline = stop, time.monotonic() + self.rules.total_seconds
        try:
            yield
        finally:
            watch.stop, watch.deadline = None, float("inf")

    @contextmanager
    def _answer(self, method: str, url: str, headers: Mapping[str, str]) -> Iterator[httpx2.Response]:
        try:
            request = self.client.build_request(method, url, headers=dict(headers))
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise BadValue("URL", shown(url), f"cannot be read: {error}") from None
        answer = self.client.send(request, stream=True)
        hops = 0
        try:
            while answer.next_request is not None:
                hops += 1
                following = self._checked_hop(answer, url, hops)
                answer.close()
                answer = self.client.send(following, stream=True)
            yield answer
        finally:
            answer.close()

    def _checked_hop(self, answer: httpx2.Response, url: str, hops: int) -> httpx2.Request:
        following = answer.next_request
        assert following is not None  # noqa: S101 - the caller saw it
        target = shown(str(following.url))
        if hops > self.rules.redirects:
            allowed = f"at most {self.rules.redirects} are followed" if self.rules.redirects else "none are followed"
            raise BadPayload(shown(url), f"it redirects to {target}, but {allowed}")
        if following.url.scheme not in ("http", "https"):
            # URLs that a depositor may name are not all allowed as redirects.
            raise BadPayload(shown(url), f"it redirects to {target}, which is not a web address")
        if answer.url.scheme == "https" and following.url.scheme != "https":
            raise BadPayload(shown(url), f"it redirects from https to {target}")
        return following

    def _body_in_bucket(self, parts: SplitResult, offset: int, validator: str, stop: Stop | None) -> Download:
        size, tag = self._buckets.find(parts)
        self._check_size(parts.geturl(), size)
        begins = offset if offset and validator == tag else 0
        return Download(Head(size, tag), begins, self._buckets.read(parts, begins, size, tag, stop))

    def _check_size(self, url: str, total: int | None) -> None:
        if total is not None and total > self.rules.max_bytes:
            raise BadPayload(shown(url), f"it has {total:,} bytes; at most {self.rules.max_bytes:,} are allowed")

    def _body(self, answer: httpx2.Response, url: str, offset: int) -> Download:
        begins, total = _content_range(answer, url, offset)
        head = Head(total, _validator(answer))
        self._check_size(url, total)
        return Download(head, begins, self._bounded(answer, url, self.rules.max_bytes - begins))

    def _bounded(self, answer: httpx2.Response, url: str, most: int) -> Iterator[bytes]:
        began = time.monotonic()
        size = 0
        for block in answer.iter_raw():
            size += len(block)
            if size > most:
                raise BadPayload(
                    shown(url),
                    (f"it has more than the allowed {self.rules.max_bytes:,} bytes; the download was stopped"),
                )
            passed = time.monotonic() - began
            if passed > self.rules.slow_seconds and size < passed * self.rules.min_rate:
                raise ServiceUnavailable(shown(url), f"too slow: {size:,} bytes in {passed:.0f} seconds")
            yield block


def ask_sizes(fetcher: Fetcher, urls: Sequence[str], threads: int = 8, stop: Stop | None = None) -> list[int | None]:
    """The size of each, as its server says; None where it does not, or cannot be asked. Never fails."""

    def size(url: str) -> int | None:
        if stop is not None and stop():
            return None
        try:
            return fetcher.head(url).size
        except HeadgateError:
            return None

    if len(urls) < 2:
        return [size(url) for url in urls]
    with ThreadPoolExecutor(min(threads, len(urls)), thread_name_prefix="estimate") as pool:
        return list(pool.map(size, urls))


def check_answer(answer: httpx2.Response, url: str) -> None:
    """Raise the error for an unsuccessful answer: temporary (ServiceUnavailable), or permanent (ServiceRefused)."""
    if answer.is_success:
        return
    said = f"the server answers {answer.status_code} {answer.reason_phrase}".rstrip()
    if answer.status_code in LATER:
        outcome = "none" if answer.status_code in _NOT_BEGUN else "unknown"
        raise ServiceUnavailable(shown(url), said, _retry_after(answer), outcome)
    raise ServiceRefused(shown(url), said)


def _core_request(request: httpx2.Request) -> httpcore2.Request:
    target = httpcore2.URL(
        scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
    )
    assert isinstance(request.stream, httpx2.SyncByteStream)  # noqa: S101 - the client is not an async one
    return httpcore2.Request(
        request.method, target, headers=request.headers.raw, content=request.stream, extensions=request.extensions
    )


def _check_status(answer: httpx2.Response, url: str) -> None:
    try:
        check_answer(answer, url)
    except ServiceRefused as error:
        raise BadPayload(error.service, error.why) from None
    if answer.status_code not in (200, 206):
        raise BadPayload(shown(url), f"the server answers {answer.status_code}, which is not a file")


def _check_encoding(answer: httpx2.Response, url: str) -> None:
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise BadPayload(
            shown(url), (f"the server sends it with the encoding {encoding}, although the request excluded encodings")
        )


def _content_range(answer: httpx2.Response, url: str, offset: int) -> tuple[int, int | None]:
    """The offset of the body in the file, and the size of the file."""
    length = _length(answer)
    if answer.status_code == 200:
        return 0, length
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != offset or not offset:
        raise ServiceUnavailable(shown(url), "the server sent a different range than requested")
    end = int(found[2]) + 1
    total = end if found[3] == "*" else int(found[3])
    if end != total or (length is not None and length != end - offset):
        raise ServiceUnavailable(shown(url), "the server sent a different range than requested")
    return offset, total


def _head(answer: httpx2.Response) -> Head:
    return Head(_length(answer), _validator(answer))


def _length(answer: httpx2.Response) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def _validator(answer: httpx2.Response) -> str:
    tag = answer.headers.get("ETag", "")
    # A weak tag does not identify the bytes, and is not allowed in If-Range.
    if tag.startswith('"'):
        return tag
    changed = answer.headers.get("Last-Modified", "")
    # A time so recent that the file may change again within it is not allowed either (RFC 9110, 8.8.2.2).
    try:
        age = parsedate_to_datetime(answer.headers["Date"]) - parsedate_to_datetime(changed)
    except (KeyError, TypeError, ValueError, OverflowError):
        return ""
    return changed if age.total_seconds() >= _SETTLED_SECONDS else ""


def _retry_after(answer: httpx2.Response) -> float | None:
    asked = seconds_of(answer.headers.get("Retry-After", ""), datetime.now(UTC))
    return None if asked is None else min(asked, _LONGEST_RETRY_AFTER)


@contextmanager
def _opened_file(parts: SplitResult, rules: Rules) -> Iterator[int]:
    path = Path(unquote(parts.path))
    root = next((root for root in rules.roots if path.is_relative_to(root)), None)
    if root is None or ".." in path.parts or "\0" in str(path):
        raise BadValue("URL", shown(parts.geturl()), "is not below a folder from which files may be fetched")
    try:
        descriptor = open_beneath(root, path.relative_to(root).parts)
    except FileNotFoundError:
        raise BadPayload(str(path), "there is no such file") from None
    except OSError as error:
        raise BadPayload(str(path), f"it cannot be opened: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadPayload(str(path), "it is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _file_head(descriptor: int) -> Head:
    found = os.fstat(descriptor)
    return Head(found.st_size, f'"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"')


def _file_body(descriptor: int, offset: int, validator: str, stop: Stop | None) -> Download:
    head = _file_head(descriptor)
    begins = offset if offset and validator == head.validator else 0
    os.lseek(descriptor, begins, os.SEEK_SET)
    return Download(head, begins, _read_blocks(descriptor, stop))


def _read_blocks(descriptor: int, stop: Stop | None) -> Iterator[bytes]:
    while block := os.read(descriptor, BLOCK):
        check_stop(stop, "a transfer")
        yield block
