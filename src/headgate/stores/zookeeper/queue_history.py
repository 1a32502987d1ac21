"""The history of batches, ingest jobs and holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from headgate.core.documents import read_document
from headgate.core.history import Entry
from headgate.core.queue import MESSAGE_LENGTH, is_batch
from headgate.core.wire import rfc3339
from headgate.stores.acting import actor
from headgate.stores.queue_port import QueueHistoryFilter
from headgate.stores.zookeeper.history_folders import HistoryFolders, parts_of
from headgate.stores.zookeeper.multi import Op
from headgate.stores.zookeeper.records import moment, quoted


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


class QueueHistory(HistoryFolders):
    """Writes and reads it. All that is searched for is in the names: batch, job, event, token and mark."""

    #: What is added to the versions of nodes (see queue_tokens.py).
    token_base = 0

    def op(self, told: Told, mark: str, folder: str) -> Op:
        # What was told elsewhere keeps its token.
        token = told.token + (self.token_base if told.at is None else 0)
        name = f"{told.batch}.{told.job}.{told.event}.{token}.{quote(told.profile, safe='')}.{mark}:"
        spent = "" if told.spent is None else f',"spent":{told.spent:.3f}'
        reason = f',"reason":{quoted(told.reason[:MESSAGE_LENGTH])}' if told.reason else ""
        at = "" if told.at is None else f',"at":"{rfc3339(told.at)}"'
        who = f'"client":{quoted(told.who)},"principal":{quoted(told.principal)}'
        data = f'{{{who},"before":"{told.before}","after":"{told.after}"{spent}{reason}{at}}}'
        return Op("tell", f"{folder}/{name}", data.encode())

    def ask(self, which: QueueHistoryFilter) -> Sequence[Entry]:
        """What happened, newest first."""

        def fits(entry: Entry) -> bool:
            return which.noun in (None, entry.noun)

        self.catch_up()
        return self.with_moved(self.matching(which, self.folders(), _name_filter(which), fits), which)

    def entry(self, number: int, name: str, data: bytes, stat: Any) -> Entry | None:
        try:
            content = read_document(data)
            batch, job, event, token, profile, _ = parts_of(name)
            noun = "ingest job" if job else "batch" if batch else "hold"
            at = datetime.fromisoformat(content["at"]) if "at" in content else moment(stat.ctime)
            return Entry(
                number, at, noun, event, unquote(profile), content["client"], "", int(token),
                content["before"], content["after"], content.get("reason", ""), job=job or batch,
                spent=content.get("spent"), principal=content.get("principal", ""),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def batch_of(self, name: str) -> str:
        return parts_of(name)[0]


def _name_filter(which: QueueHistoryFilter) -> Callable[[int, str], bool]:
    column = 0 if which.item is not None and is_batch(which.item) else 1

    def fits(number: int, name: str) -> bool:
        parts = parts_of(name)
        if len(parts) != 6 or (which.item is not None and parts[column] != which.item):
            return False
        return which.event in (None, parts[2]) and (which.before is None or number < which.before)

    return fits
