"""Moving a queue alone, between stores that keep it differently: read and compared through its port."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from headgate.core.errors import HalfMoved, StoreInUse
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.history import QUEUE_NOUNS, Entry, HistoryFilter
from headgate.core.jumps import Jump, next_jump
from headgate.core.queue.model import Batch, Hold, IngestJob, is_batch
from headgate.core.values.plurals import plural
from headgate.core.values.wire import parse, plain
from headgate.stores.ports.history import all_entries
from headgate.stores.ports.moving import PORTION, Contents, Digest, QueuePlace, Row
from headgate.stores.ports.queue import QueueStore

#: The parts of a queue, in the order in which they are written.
PARTS = ("holds", "batches", "ingest jobs", "history")
T = TypeVar("T", Batch, IngestJob)


class QueueSource:
    """A queue as the source of a copy. It is not locked: changes during the copy are found at the end."""

    def __init__(self, place: QueuePlace, *, in_use: bool) -> None:
        self.name = place.name
        self._place = place
        self._queue = place.queue
        self._in_use = in_use
        self._refuse_users()
        counts, token = self._look()
        self.contents = Contents(
            schema="queue", tag=place.tag, at=0, now=0, token=max(token, place.last_token()),
            numbers=place.last_numbers(), jumped=Jump(), facts={}, tables={part: ["it"] for part in PARTS},
            counts=counts,
        )  # fmt: skip

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        return _documents(self._place, table)

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        for part, digest in digests.items():
            if _digest(self._place, part) != digest:
                raise HalfMoved(
                    f"the {part} in {self.name} changed during the copy. Stop all clients of that store and repeat "
                    "the command: it starts over"
                )
        # The comparison ignores whether an item is taken.
        self._refuse_users()

    def jump(self) -> Jump:
        """Return how far tokens jump; ids do not jump, unless other processes may be creating some right now."""
        jump = next_jump(Jump(), secrets.randbelow)
        return jump if self._in_use else replace(jump, ids=0)

    def _refuse_users(self) -> None:
        if not self._in_use:
            _refuse_users(self._place)

    def _look(self) -> tuple[dict[str, int], int]:
        """The number of each kind, and the greatest token of all."""
        batches = [each.token for portion in _batches(self._queue) for each in portion]
        jobs = [each.token for portion in _jobs(self._queue) for each in portion]
        told = sum(len(rows) for rows in _history(self._place))
        counts = (len(self._queue.holds()), len(batches), len(jobs), told)
        return dict(zip(PARTS, counts, strict=True)), max([0, *batches, *jobs])


class QueueTarget:
    """A queue as the target of a copy."""

    def __init__(self, place: QueuePlace) -> None:
        self.name = place.name
        self._place = place
        self._contents: Contents | None = None

    def begin(self, contents: Contents) -> None:
        self._contents = contents
        self._place.begin(contents.tag)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        documents = [row[0] for row in rows]
        if table == "holds":
            self._place.put_holds([parse(Hold, each) for each in documents])
        elif table == "batches":
            self._place.put_batches([parse(Batch, each) for each in documents])
        elif table == "ingest jobs":
            self._place.put_jobs([parse(IngestJob, each) for each in documents])
        else:
            self._place.put_history([(parse(Entry, each), each["batch"]) for each in documents])

    def digests(self) -> Iterator[tuple[str, Digest]]:
        for part in PARTS:
            yield part, _digest(self._place, part)

    def finish(self, digests: Mapping[str, Digest], jump: Callable[[], Jump]) -> None:
        del digests
        assert self._contents is not None  # noqa: S101 - begin comes first
        far = jump()
        numbers = {name: number + far.ids for name, number in self._contents.numbers.items()}
        self._place.finish(numbers, self._contents.token + far.tokens)


def _refuse_users(place: QueuePlace) -> None:
    batches = len(place.queue.batches(BatchFilter(taken=True, limit=PORTION)))
    jobs = len(place.queue.jobs(JobFilter(taken=True, limit=PORTION)))
    users = [plural(count, what) for count, what in ((batches, "taken batch"), (jobs, "taken ingest job")) if count]
    if users:
        raise StoreInUse(place.name, users)


def _digest(place: QueuePlace, part: str) -> Digest:
    digest = Digest()
    for rows in _documents(place, part):
        digest.add(rows)
    return digest


def _documents(place: QueuePlace, part: str) -> Iterator[Sequence[Row]]:
    """A part of the queue in JSON, without the values that a move changes: the owner of an item, and its token."""
    queue = place.queue
    if part == "holds":
        yield [[plain(replace(each, since=_milliseconds(each.since)))] for each in queue.holds()]
    elif part == "batches":
        yield from ([[plain(_still_batch(each))] for each in portion] for portion in _batches(queue))
    elif part == "ingest jobs":
        yield from ([[plain(_still(each))] for each in portion] for portion in _jobs(queue))
    else:
        yield from _history(place)


def _batches(queue: QueueStore) -> Iterator[Sequence[Batch]]:
    after = None
    while found := queue.batches(BatchFilter(after=after, limit=PORTION)):
        yield found
        after = found[-1].id


def _jobs(queue: QueueStore) -> Iterator[Sequence[IngestJob]]:
    after = None
    while found := queue.jobs(JobFilter(after=after, limit=PORTION)):
        yield found
        after = found[-1].id


def _still(item: T) -> T:
    """The item as if it were not taken, with its times in the precision that every store supports."""
    return replace(item, worker="", token=0, lease=None, principal="", since=_milliseconds(item.since))


def _still_batch(batch: Batch) -> Batch:
    report = batch.report and replace(batch.report, at=_milliseconds(batch.report.at))
    return replace(_still(batch), report=report)


def _history(place: QueuePlace) -> Iterator[Sequence[Row]]:
    """Oldest first, each with its batch, and without its number, which every store assigns itself."""
    entries = list(all_entries(place.history, HistoryFilter(nouns=QUEUE_NOUNS), PORTION))
    batches = {job.id: job.batch for portion in _jobs(place.queue) for job in portion}
    told = [[_told(entry, batches)] for entry in reversed(entries)]
    yield from (told[start : start + PORTION] for start in range(0, len(told), PORTION))


def _told(entry: Entry, batches: Mapping[str, str]) -> dict[str, Any]:
    """The batch of a job that was deleted is no longer known."""
    batch = entry.job if not entry.job or is_batch(entry.job) else batches.get(entry.job, "")
    spent = None if entry.spent is None else round(entry.spent, 3)
    return {**plain(replace(entry, id=0, at=_milliseconds(entry.at), spent=spent)), "batch": batch}


def _milliseconds(at: Any) -> Any:
    return at.replace(microsecond=at.microsecond // 1000 * 1000) if isinstance(at, datetime) else at
