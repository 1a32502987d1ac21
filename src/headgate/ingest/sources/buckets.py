"""Payloads in S3-compatible buckets: `s3://bucket/key`, with the credentials and the endpoint from the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import SplitResult, unquote

from headgate.core.errors import BadPayload, BadValue, MissingExtra, ServiceUnavailable
from headgate.core.values.redaction import shown
from headgate.ingest.stopping import Stop, check_stop

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Store

    from headgate.ingest.sources.guard import Rules

#: Number of bytes per request: a file may take hours, an answer may not.
PIECE = 4 << 20
#: Variables that set an option of the client. None are for proxies, or turn off the verification of certificates.
OPTIONS: Mapping[str, str] = {
    f"AWS_{option.upper()}": option
    for option in (
        "allow_http", "connect_timeout", "timeout", "read_timeout", "pool_idle_timeout", "pool_max_idle_per_host",
        "http1_only", "http2_only", "randomize_addresses", "user_agent",
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Buckets:
    """The opened buckets, according to the rules. One for many threads."""

    rules: Rules
    _opened: dict[str, S3Store] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def find(self, parts: SplitResult) -> tuple[int, str]:
        """The size of an object, and the tag that identifies its content."""
        import obstore

        with _errors(parts):
            found = obstore.head(self._bucket(parts.hostname or ""), _key(parts))
        return int(found["size"]), found["e_tag"] or ""

    def read(self, parts: SplitResult, start: int, size: int, tag: str, stop: Stop | None) -> Iterator[bytes]:
        """Its bytes from `start` to its end, as long as it still has that tag."""
        import obstore

        bucket, key = self._bucket(parts.hostname or ""), _key(parts)
        while start < size:
            check_stop(stop, "a transfer")
            end = min(start + PIECE, size)
            with _errors(parts):
                found = bytes(
                    obstore.get(bucket, key, options={"range": (start, end), "if_match": tag or None}).bytes()
                )
            if len(found) != end - start:
                raise ServiceUnavailable(shown(parts.geturl()), "the bucket sent a different range than requested")
            yield found
            start = end

    def _bucket(self, name: str) -> S3Store:
        with self._opening:
            if name not in self._opened:
                times: ClientConfig = {
                    "connect_timeout": timedelta(seconds=self.rules.connect_seconds),
                    "timeout": timedelta(seconds=self.rules.idle_seconds),
                }
                # The profile determines the number of attempts.
                self._opened[name] = connect_bucket(name, times, {"max_retries": 0})
            return self._opened[name]


def connect_bucket(name: str, options: ClientConfig | None = None, retries: RetryConfig | None = None) -> S3Store:
    """A bucket with the endpoint and credentials from the environment, without a proxy."""
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise MissingExtra("s3", "Buckets need obstore") from error
    from obstore.exceptions import BaseError

    # A proxy that applies to no host prevents the client from using one from the environment.
    direct: ClientConfig = {"proxy_url": "http://127.0.0.1:9", "proxy_excludes": "*,0.0.0.0/0,::/0"}
    try:
        return S3Store(name, client_options={**_environment(), **(options or {}), **direct}, retry_config=retries)
    except (BaseError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise BadValue("bucket", name, f"cannot be opened with the current AWS_ variables: {why}") from None


def _environment() -> ClientConfig:
    """The client's options in the environment. It has only the options that it is given, and reads none from the
    environment.
    """
    found = {option: os.environ[variable] for variable, option in OPTIONS.items() if os.environ.get(variable)}
    if bundle := os.environ.get("AWS_CA_BUNDLE"):
        try:
            found["root_certificate"] = Path(bundle).read_text()
        except (OSError, ValueError) as error:
            raise BadValue("AWS_CA_BUNDLE", bundle, f"cannot be read: {error}") from None
    return cast("ClientConfig", found)


def _key(parts: SplitResult) -> str:
    return unquote(parts.path).lstrip("/")


@contextmanager
def _errors(parts: SplitResult) -> Iterator[None]:
    from obstore import exceptions

    where = shown(parts.geturl())
    try:
        yield
    except (exceptions.NotFoundError, FileNotFoundError):
        raise BadPayload(where, "there is no such object in the bucket") from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError) as error:
        raise BadPayload(where, "access to it in the bucket is denied") from error
    except exceptions.PreconditionError as error:
        raise ServiceUnavailable(where, "it changed while it was being read") from error
    except (exceptions.BaseError, OSError) as error:
        raise ServiceUnavailable(where, str(error).partition("\n")[0]) from error
