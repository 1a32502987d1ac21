"""A storage behind HTTP, like Merritt's: it receives the storage manifest, fetches the files, and returns the version.

It does not know operation ids: after a lost answer a repeat may store a second version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headgate.core.errors import ServiceRefused, ServiceUnavailable
from headgate.core.values.redaction import shown
from headgate.ingest.sources.fetch import Fetcher, check_answer
from headgate.ingest.stopping import Stop

#: The storage fetches a larger manifest from its URL.
MANIFEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Addition:
    """A version to be stored."""

    ark: str
    #: The text of the storage manifest.
    manifest: str
    #: The URL from which the storage can fetch it; needed when it is large.
    manifest_url: str
    #: The ingest job's id.
    job: str
    #: Files of the previous version stay; otherwise these are all files.
    update: bool = False
    #: Names to remove, one per line; only with `update`.
    remove: str = ""


@dataclass(frozen=True, slots=True)
class HttpStorage:
    """The endpoint and node number of a storage service."""

    fetcher: Fetcher
    url: str
    node: str

    def add(self, addition: Addition, stop: Stop | None = None) -> int:
        """Store a version, and return its number. ServiceRefused when the storage refuses."""
        action = "update" if addition.update else "add"
        url = f"{self.url.rstrip('/')}/{action}/{quote(self.node, safe='')}/{quote(addition.ark, safe='')}"
        request = self.fetcher.client.build_request("POST", url, data=_form(addition), headers={"JID": addition.job})
        answer = self.fetcher.exchange(request, stop)
        check_answer(answer, url)
        try:
            document = answer.json()
        except ValueError as error:
            raise ServiceUnavailable(shown(url), "its response is not JSON") from error
        return _version(document, addition.ark, url)


def _form(addition: Addition) -> dict[str, str]:
    form = {"t": "json"}
    if len(addition.manifest.encode()) < MANIFEST_BYTES:
        form["manifest"] = addition.manifest
    else:
        form["url"] = addition.manifest_url
    if addition.update and addition.remove:
        form["delete"] = addition.remove
    return form


def _version(document: Any, ark: str, url: str) -> int:
    try:
        state = document["ver:versionState"]
        found, number = state["ver:objectID"], int(state["ver:identifier"])
    except (KeyError, TypeError, ValueError) as error:
        raise ServiceUnavailable(shown(url), "its response names no version") from error
    if found != ark:
        raise ServiceRefused(shown(url), f"it stored {found}, not {ark}")
    return number
