"""The workers of a storage service, and the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from headgate.core.errors import BadValue, ServiceRefused, ServiceUnavailable
from headgate.core.values.redaction import shown
from headgate.ingest.context import Context
from headgate.ingest.profiles.profile import Profile, ProfileStorage
from headgate.ingest.profiles.values import web_address
from headgate.ingest.sources.fetch import check_answer

#: Maximum length of a worker's name.
_NAME_BYTES = 1000


def ask_workers(context: Context, profile: Profile, ask: Callable[[str], int]) -> tuple[int, str]:
    """The answer of the first worker that is reachable and does not refuse, and its URL.

    Raises the last worker's error, with the reasons of all. After a worker that received the request but did not
    answer, no other is tried: it may have stored the version.
    """
    named = bool(profile.storage.workers or profile.storage.worker_url)
    skipped: list[str] = []
    workers = _workers(context, profile.storage)
    for number, url in enumerate(workers):
        try:
            answer = ask(url)
        except (ServiceRefused, ServiceUnavailable) as error:
            may_have = isinstance(error, ServiceUnavailable) and error.outcome != "none"
            if may_have or number == len(workers) - 1:
                raise _of_all(error, skipped) from error
            skipped.append(f"{shown(url)}: {error.why}")
        else:
            return answer, "; ".join([shown(url), *(f"not by {each}" for each in skipped)]) if named else ""
    raise BadValue("storage", profile.storage.url, "names no worker")


def _workers(context: Context, storage: ProfileStorage) -> Sequence[str]:
    """URLs of workers, in the order in which they are tried."""
    found = list(storage.workers) or [storage.url]
    if storage.worker_url:
        try:
            found.insert(0, _named_worker(context, storage))
        except (ServiceRefused, ServiceUnavailable, BadValue):
            if not storage.workers:
                raise
    return list(dict.fromkeys(found))


def _named_worker(context: Context, storage: ProfileStorage) -> str:
    """The worker that the service currently names: by its URL, or by its host name."""
    fetcher = context.service(storage.worker_url)
    answer = fetcher.exchange(fetcher.client.build_request("GET", storage.worker_url))
    check_answer(answer, storage.worker_url)
    text = answer.content[:_NAME_BYTES].decode(errors="replace").strip()
    if "://" not in text:
        parts = urlsplit(storage.url)
        port = f":{parts.port}" if parts.port and ":" not in text else ""
        text = parts._replace(netloc=f"{text}{port}").geturl()
    return str(web_address(text))


def _of_all(error: ServiceRefused | ServiceUnavailable, skipped: Sequence[str]) -> ServiceRefused | ServiceUnavailable:
    if not skipped:
        return error
    why = "; ".join([error.why, *skipped])
    if isinstance(error, ServiceUnavailable):
        return ServiceUnavailable(error.service, why, error.retry_after, error.outcome)
    return ServiceRefused(error.service, why)
