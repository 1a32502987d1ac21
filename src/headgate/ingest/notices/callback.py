"""Notifying another program of a job's outcome: one signed POST, according to Standard Webhooks.

The id is the same in every attempt, so that a receiver can detect repeats.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.errors import BadValue
from headgate.ingest.retries import Retries, retried
from headgate.ingest.sources.fetch import Fetcher, check_answer
from headgate.ingest.stopping import Stop, waited

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret starts with
#: Shorter keys can be guessed, and longer ones add no security.
_KEY_BYTES = range(24, 65)


@dataclass(frozen=True, slots=True)
class Callback:
    """The content, the URL and the id of a callback."""

    url: str
    #: Stable, and without a dot.
    id: str
    #: JSON.
    body: bytes
    #: `whsec_` and the key in base64; empty: not signed.
    secret: str = ""


def deliver(
    fetcher: Fetcher,
    callback: Callback,
    retries: Retries = Retries(),  # noqa: B008 - frozen
    stop: Stop | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Send it until the receiver accepts it.

    ServiceUnavailable when it does not answer in any attempt; ServiceRefused when it refuses.
    """

    def send() -> None:
        headers = signed_headers(callback, int(clock()))
        request = fetcher.client.build_request("POST", callback.url, content=callback.body, headers=headers)
        check_answer(fetcher.exchange(request, stop), callback.url)

    retried(send, retries, waited(stop, "a callback"))


def signed_headers(callback: Callback, timestamp: int) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "webhook-id": callback.id,
        "webhook-timestamp": str(timestamp),
    }
    if callback.secret:
        signed = b".".join([callback.id.encode(), str(timestamp).encode(), callback.body])
        value = hmac.new(secret_key(callback.secret), signed, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(value).decode()}"
    return headers


def secret_key(secret: str) -> bytes:
    """The key within a secret. BadValue, which does not show it, if it is not valid."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in _KEY_BYTES:
        raise BadValue("callback secret", "…", f"must be {SECRET_PREFIX} and 24 to 64 bytes in base64")
    return key
