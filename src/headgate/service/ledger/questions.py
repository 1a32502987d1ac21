"""Queries about the ledger, which change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.filters import RowFilter, SpanFilter
from headgate.core.ledger.census import Span, Tally
from headgate.core.ledger.fan import MOST_FANNED, MOST_LINKS, ChunkLink, FanIn
from headgate.core.ledger.model import RUNNING, Dataset, Job, Recurrence, Row
from headgate.core.ledger.parsing import STATUS_WORDS, parse_kind, parse_status
from headgate.core.ledger.verdicts import Plan, Verdict
from headgate.core.locks.model import Lock
from headgate.core.logs import Log, LogStream
from headgate.core.values.names import check_name
from headgate.core.values.words import check_word, unknown_word
from headgate.service.checks import check_limit, check_names
from headgate.stores.ports.ledger import LedgerStore

#: Unfinished chunks are not counted beyond this number: nobody waits for the end of more.
LEFT_MOST = 100_000
#: The filters of chunks, each with its check.
CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "dataset": partial(check_name, "dataset"), "job": partial(check_name, "job"),
    "dataid": partial(check_name, "dataid"), "kind": parse_kind, "status": parse_status,
    "after": partial(check_name, "dataid"), "limit": check_limit,
}  # fmt: skip


class LedgerReader:
    """Queries about datasets, jobs and chunks."""

    _store: LedgerStore

    # ---------------------------------------------------------------- definitions

    def datasets(self) -> Sequence[Dataset]:
        """List datasets by name, with the names of their secrets."""
        return self._store.datasets()

    def jobs(self) -> Sequence[Job]:
        """List jobs by name."""
        return self._store.jobs()

    def job(self, name: str) -> tuple[Job, Sequence[Dataset]]:
        """Return a job and its datasets. Raises UnknownName if there is none.

        :param name: Name of the job.
        """
        return self._store.job(check_name("job", name))

    # ---------------------------------------------------------------- next chunks

    def explain(self, job: str, dataid: str) -> Verdict:
        """Explain whether a job may claim a chunk: each condition with its answer and the row that decides it."""
        return self._store.explain(check_name("job", job), check_name("dataid", dataid))

    def logs(
        self, job: str, dataid: str, *, attempt: int | None = None, stream: str | None = None, limit: int = 10
    ) -> Sequence[Log]:
        """List the stored logs of a chunk, newest attempt first: for each attempt one of stdout and one of stderr.

        :param attempt: Only of attempts with this number.
        :param stream: Only `stdout` or `stderr`.
        """
        wanted = None if stream is None else LogStream(check_word("stream", stream, tuple(LogStream)))
        number = None if attempt is None else check_limit(attempt)
        return self._store.logs(
            check_name("job", job), check_name("dataid", dataid), number, wanted, check_limit(limit)
        )

    def plan(self, job: str, limit: int = 20) -> Plan:
        """List the chunks that would run next, in order, and what blocks the others."""
        return self._store.plan(check_name("job", job), check_limit(limit))

    def left(self, job: str, most: int = LEFT_MOST) -> int:
        """Count the chunks that wait for the job.

        :param most: Stop counting here.
        """
        return self._store.left(check_name("job", job), most)

    def recurrences(self) -> Sequence[Recurrence]:
        """List the recurring jobs (`recur`), by name, each with the time when its oldest chunk was processed."""
        return self._store.recurrences()

    def fan_in(self, job: str, dataids: Sequence[str], most: int = MOST_LINKS) -> Sequence[FanIn]:
        """Return the upstream data that data ids of a job need, by data id and input: how much of it is READY, and
        links to it.

        :param job: Name of the job.
        :param dataids: Data ids of the job.
        :param most: Largest number of links of one data id and input.
        """
        names = list(dict.fromkeys(check_names("dataids", dataids)))
        if len(names) > MOST_FANNED:
            raise BadValue("dataids", len(names), f"are too many; at most {MOST_FANNED:,} are allowed")
        return self._store.fan_in(check_name("job", job), names, check_limit(most))

    def readers(self, dataset: str, dataid: str, most: int = MOST_LINKS) -> Sequence[ChunkLink]:
        """List the chunks that read this one or were made from it, by job; each with its status.

        :param dataset: The dataset.
        :param dataid: The data id.
        :param most: Largest number of chunks of one job.
        """
        return self._store.readers(check_name("dataset", dataset), check_name("dataid", dataid), check_limit(most))

    def next_of(self, job: Job) -> Plan:
        """Return what a listed job would run next; its name need not be valid for callers."""
        return self._store.plan(job.name, 1)

    def left_of(self, job: Job) -> int:
        """Count the chunks that wait for a listed job."""
        return self._store.left(job.name, LEFT_MOST)

    # ---------------------------------------------------------------- chunks

    def status(
        self, dataset: str | None = None, job: str | None = None, dataid: str | None = None, *, kind: str | None = None,
        status: str | None = None, after: str | None = None, limit: int | None = None,
    ) -> Sequence[Row]:  # fmt: skip
        """List rows of chunks, by dataset and in its order. Raises BadValue for an unknown status that no chunk has.

        :param after: Last data id of the previous page; needs `dataset`.
        """
        if after is not None and dataset is None:
            raise BadValue("after", after, "needs a dataset, because each dataset has its own order")
        return self._status(
            {
                "dataset": dataset, "job": job, "dataid": dataid, "kind": kind, "status": status, "after": after,
                "limit": limit,
            }
        )  # fmt: skip

    def _status(self, asked: Mapping[str, Any]) -> Sequence[Row]:
        which = RowFilter(**{name: CHECKS[name](value) for name, value in asked.items() if value is not None})
        rows = self.rows(which)
        unknown = which.status is not None and which.status not in STATUS_WORDS.values()
        if unknown and not rows and not self.rows(RowFilter(status=which.status, limit=1)):
            raise unknown_word("status", asked["status"], STATUS_WORDS)
        return rows

    def rows(self, which: RowFilter) -> Sequence[Row]:
        """List rows of chunks, by names that the store returned."""
        return self._store.rows(which)

    def standing(self) -> Sequence[Tally]:
        """Count the chunks of each job that run, failed, are held or will be resubmitted; each chunk once."""
        return self._store.standing()

    def tallies(self, most: int) -> Sequence[Tally]:
        """Count the chunks of each dataset and job by status; of each dataset at most `most`."""
        return self._store.tallies(most)

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        """List spans of data ids in the order of a dataset, each with its chunks counted by status."""
        return self._store.spans(which)

    def claims(self) -> Sequence[Lock]:
        """List running claims as the locks that they act as, by id."""
        return self._store.running()

    def failures(self, limit: int = 100, after: str | None = None) -> Sequence[Row]:
        """List chunks with the status ERROR, newest first.

        :param after: The `failure_cursor` of the last row of the previous page.
        """
        return self._store.failures(check_limit(limit), after)

    def running(self) -> list[Row]:
        """List claims, expired ones included, one row each: its OUTPUT row if it has one."""
        found: dict[tuple[str, str], Row] = {}
        for job in self.jobs():
            rows = self.rows(RowFilter(job=job.name, status=RUNNING))
            for row in sorted(rows, key=lambda row: row.kind != "OUTPUT"):
                found.setdefault((row.job, row.dataid), row)
        return list(found.values())
