"""Display names of a batch or an ingest job: the title and the name of the payload, beside the id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from headgate.core.queue.model import Batch, Item


def title_of(item: Item) -> str:
    """The title that the depositor or the manifest gave; empty if there is none."""
    return str(_said(item).get("erc_what") or "")


def file_name_of(item: Item) -> str:
    """The name of the payload: the one that was given, or the last part of its URL."""
    return str(_said(item).get("filename") or unquote(urlsplit(_url(item)).path).rpartition("/")[2])


def _said(item: Item) -> Mapping[str, Any]:
    return item.submission.metadata if isinstance(item, Batch) else item.configuration


def _url(item: Item) -> str:
    return item.submission.payload_url if isinstance(item, Batch) else str(item.configuration.get("payload_url", ""))
