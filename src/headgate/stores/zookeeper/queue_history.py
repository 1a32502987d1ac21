"""Entries of batches, ingest jobs and holds, as nodes of the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from headgate.calls.actor import actor
from headgate.core.history import Entry
from headgate.core.queue import MESSAGE_LENGTH
from headgate.core.wire import rfc3339
from headgate.stores.zookeeper.records import quoted


@dataclass(frozen=True, slots=True)
class Told:
    """An entry in the making."""

    event: str
    who: str
    before: str
    after: str
    reason: str = ""
    #: The batch; and the job, if it happened to one. Both are empty for a hold.
    batch: str = ""
    job: str = ""
    #: Of a hold.
    profile: str = ""
    token: int = 0
    spent: float | None = None
    #: When, if not now: it happened in a store that the queue was moved from.
    at: datetime | None = None
    principal: str = field(default_factory=lambda: actor().principal)

    def node(self, mark: str, token_base: int) -> tuple[str, str]:
        """Its name, which has all that is searched for, and its content. `token_base`: see queue_tokens.py."""
        # What was told elsewhere keeps its token.
        token = self.token + (token_base if self.at is None else 0)
        name = f"{self.batch}.{self.job}.{self.event}.{token}.{quote(self.profile, safe='')}.{mark}:"
        spent = "" if self.spent is None else f',"spent":{self.spent:.3f}'
        reason = f',"reason":{quoted(self.reason[:MESSAGE_LENGTH])}' if self.reason else ""
        at = "" if self.at is None else f',"at":"{rfc3339(self.at)}"'
        who = f'"client":{quoted(self.who)},"principal":{quoted(self.principal)}'
        return name, f'{{{who},"before":"{self.before}","after":"{self.after}"{spent}{reason}{at}}}'


#: The parts of such a name.
PARTS = 6


def noun_of(parts: Sequence[str]) -> str:
    """The noun of an entry, by the parts of its name."""
    batch, job = parts[:2]
    return "ingest job" if job else "batch" if batch else "hold"


def read_entry(number: int, parts: Sequence[str], content: Mapping[str, Any], at: datetime) -> Entry:
    """A node as an entry. KeyError, ValueError: it is not ours."""
    batch, job, event, token, profile, _ = parts
    return Entry(
        number, datetime.fromisoformat(content["at"]) if "at" in content else at, noun_of(parts), event,
        unquote(profile), content["client"], "", int(token), content["before"], content["after"],
        content.get("reason", ""), job=job or batch, spent=content.get("spent"), principal=content.get("principal", ""),
    )  # fmt: skip
