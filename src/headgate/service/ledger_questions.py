"""What may be asked of the ledger without changing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headgate.core.census import Span, Tally
from headgate.core.claims import Plan, Verdict
from headgate.core.errors import BadValue
from headgate.core.filters import RowFilter, SpanFilter
from headgate.core.ledger import RUNNING, STATUS_WORDS, Dataset, Job, Row, parse_kind, parse_status
from headgate.core.locks import Lock
from headgate.core.names import check_name
from headgate.core.words import unknown_word
from headgate.service.checks import check_limit
from headgate.stores.base import LedgerStore

#: What is left to do is not counted further: beyond this nobody waits for its end.
LEFT_MOST = 100_000
#: What a caller may ask for of chunks, each with its check.
CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "dataset": partial(check_name, "dataset"), "job": partial(check_name, "job"),
    "dataid": partial(check_name, "dataid"), "kind": parse_kind, "status": parse_status,
    "after": partial(check_name, "dataid"), "limit": check_limit,
}  # fmt: skip


class LedgerQuestions:
    """Questions about datasets, jobs and chunks."""

    _store: LedgerStore

    # ---------------------------------------------------------------- definitions

    def datasets(self) -> Sequence[Dataset]:
        """All datasets, by name; of their secrets, the names."""
        return self._store.datasets()

    def jobs(self) -> Sequence[Job]:
        """All jobs, by name."""
        return self._store.jobs()

    def job(self, name: str) -> tuple[Job, Sequence[Dataset]]:
        """One job and its datasets. UnknownName when there is none."""
        return self._store.job(check_name("job", name))

    # ---------------------------------------------------------------- what is next

    def explain(self, job: str, dataid: str) -> Verdict:
        """May the job claim the chunk? Each condition with its answer and the row behind it."""
        return self._store.explain(check_name("job", job), check_name("dataid", dataid))

    def plan(self, job: str, limit: int = 20) -> Plan:
        """What would run next, in order, and what blocks the rest."""
        return self._store.plan(check_name("job", job), check_limit(limit))

    def left(self, job: str, most: int = LEFT_MOST) -> int:
        """How many chunks wait for the job, counted up to `most`."""
        return self._store.left(check_name("job", job), most)

    def next_of(self, job: Job) -> Plan:
        """What a job that is listed here would run next; its name may be one that callers may not use."""
        return self._store.plan(job.name, 1)

    def left_of(self, job: Job) -> int:
        """How many chunks wait for such a job."""
        return self._store.left(job.name, LEFT_MOST)

    # ---------------------------------------------------------------- chunks

    def status(
        self,
        dataset: str | None = None,
        job: str | None = None,
        dataid: str | None = None,
        *,
        kind: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Row]:
        """Rows of chunks, by dataset and in its order; page on with `after` the last data id.

        BadValue for a status that Headgate does not know and that no chunk has.
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
        """Rows of chunks, by names as the store has them."""
        return self._store.rows(which)

    def standing(self) -> Sequence[Tally]:
        """How many chunks of each job run, failed, are held or wait to be resubmitted; each chunk once."""
        return self._store.standing()

    def tallies(self, most: int) -> Sequence[Tally]:
        """How many chunks of each dataset and job have which status; of each dataset `most` are counted."""
        return self._store.tallies(most)

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        """Data ids in the order of a dataset, and how many of each span have which status."""
        return self._store.spans(which)

    def claims(self) -> Sequence[Lock]:
        """Running claims as the locks that they act as, by id."""
        return self._store.running()

    def failures(self, limit: int = 100, after: str | None = None) -> Sequence[Row]:
        """Chunks that are in ERROR, newest first; `after`: the `failure_cursor` of the last one."""
        return self._store.failures(check_limit(limit), after)

    def running(self) -> list[Row]:
        """The claims that there are, those of the dead among them: one row for each, its OUTPUT if it has one."""
        found: dict[tuple[str, str], Row] = {}
        for job in self.jobs():
            rows = self.rows(RowFilter(job=job.name, status=RUNNING))
            for row in sorted(rows, key=lambda row: row.kind != "OUTPUT"):
                found.setdefault((row.job, row.dataid), row)
        return list(found.values())
