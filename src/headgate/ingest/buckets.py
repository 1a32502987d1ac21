"""Payloads in S3-compatible buckets: `s3://bucket/key`, with the credentials and the endpoint of the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote

from headgate.core.errors import BadPayload, MissingExtra, ServiceUnavailable
from headgate.core.redaction import shown
from headgate.ingest.guard import Rules
from headgate.ingest.stopping import Stop, check_stop

if TYPE_CHECKING:
    from obstore.store import S3Store

#: Asked for at a time: a file may take hours, an answer may not.
PIECE = 4 << 20


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets that have been asked, by the rules. One for many threads."""

    rules: Rules
    _opened: dict[str, S3Store] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def find(self, parts: SplitResult) -> tuple[int, str]:
        """The size of an object, and the tag that names this very content."""
        import obstore

        with _errors(parts):
            found = obstore.head(self._bucket(parts.hostname or ""), _key(parts))
        return int(found["size"]), found["e_tag"] or ""

    def read(self, parts: SplitResult, start: int, size: int, tag: str, stop: Stop | None) -> Iterator[bytes]:
        """Its bytes from `start` to its end, as long as it is the one that the tag names."""
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
                raise ServiceUnavailable(shown(parts.geturl()), "the bucket sent another part than was asked for")
            yield found
            start = end

    def _bucket(self, name: str) -> S3Store:
        try:
            from obstore.store import S3Store
        except ImportError as error:
            raise MissingExtra("s3", "Payloads in a bucket need obstore") from error
        with self._opening:
            if name not in self._opened:
                rules = self.rules
                self._opened[name] = S3Store(
                    name,
                    client_options={
                        # Options that are given here are all there are: this one is not read from there any more.
                        "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
                        "connect_timeout": timedelta(seconds=rules.connect_seconds),
                        "timeout": timedelta(seconds=rules.idle_seconds),
                    },
                    # How often it is tried is for the profile to say.
                    retry_config={"max_retries": 0},
                )
            return self._opened[name]


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
        raise BadPayload(where, "the bucket does not let us read it") from error
    except exceptions.PreconditionError as error:
        raise ServiceUnavailable(where, "it changed while it was read") from error
    except (exceptions.BaseError, OSError) as error:
        raise ServiceUnavailable(where, str(error).partition("\n")[0]) from error
