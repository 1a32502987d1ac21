"""Queries about the queue, which change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter

from headgate.core.faults import Fault
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.queue.model import (
    ALL,
    HOLD_EVENT,
    Batch,
    Folder,
    IngestJob,
    Item,
    check_item_id,
    has_ended,
    has_row,
    is_batch,
    work_states,
)
from headgate.core.queue.summary import CollectionSummary, merritt_metrics, summarized
from headgate.core.tables.machine import Machine
from headgate.core.values.names import check_name
from headgate.core.values.words import check_word
from headgate.service.checks import check_limit, check_span
from headgate.service.leases.ending import EndWait, Look
from headgate.service.leases.looking import REST_SECONDS, Looking
from headgate.stores.ports.queue import QueueStore


class QueueReader:
    """Queries about batches and ingest jobs."""

    _store: QueueStore

    def tables(self) -> tuple[Machine, Machine]:
        """Return the state tables in force: that of batches and that of ingest jobs."""
        return self._store.batch_table, self._store.job_table

    def batch(self, batch: str) -> Batch:
        """Return a batch. Raises UnknownName if there is none."""
        return self._store.batch(check_item_id(batch))

    def job(self, job: str) -> IngestJob:
        """Return an ingest job. Raises UnknownName if there is none."""
        return self._store.job(check_item_id(job))

    def batches(
        self, state: str | None = None, *, profile: str | None = None, submitter: str | None = None,
        taken: bool = False, after: str | None = None, limit: int | None = None,
    ) -> Sequence[Batch]:  # fmt: skip
        """List batches by id."""
        which = BatchFilter(
            state=None if state is None else check_word("state", state, self._store.batch_table.states),
            profile=None if profile is None else check_name("profile", profile),
            submitter=None if submitter is None else check_name("submitter", submitter),
            taken=taken,
            after=None if after is None else check_item_id(after),
            limit=None if limit is None else check_limit(limit),
        )
        return self._store.batches(which)

    def jobs(
        self, state: str | None = None, *, batch: str | None = None, profile: str | None = None, taken: bool = False,
        after: str | None = None, limit: int | None = None,
    ) -> Sequence[IngestJob]:  # fmt: skip
        """List ingest jobs by id."""
        which = JobFilter(
            state=None if state is None else check_word("state", state, self._store.job_table.states),
            batch=None if batch is None else check_item_id(batch),
            profile=None if profile is None else check_name("profile", profile),
            taken=taken,
            after=None if after is None else check_item_id(after),
            limit=None if limit is None else check_limit(limit),
        )
        return self._store.jobs(which)

    def job_ids(self, batch: str, folder: Folder) -> Sequence[str]:
        """List the ids of a batch's jobs that are processing, failed or completed.

        :param folder: `processing`, `failed` or `completed`.
        """
        return self._store.job_ids(check_item_id(batch), Folder(folder))

    def first_free(self, noun: str, state: str) -> Item | None:
        """Return the item in a state that would be taken next; None if there is none."""
        tables = {table.name: table for table in self.tables()}
        machine = tables[check_word("noun", noun, tuple(tables))]
        return self._store.first_free(machine, check_word("state", state, work_states(machine)))

    # ---------------------------------------------------------------- waiting

    def wait(self, item: str, *, timeout: float | None = None) -> Item:
        """Wait until a batch or an ingest job has ended or is held. Returns its final state.

        :param timeout: Seconds to wait; None: no limit.
        """
        return self.following(item).to_its_end(None if timeout is None else check_span("timeout", timeout))

    def following(self, item: str, *, state: str | None = None) -> EndWait[Item]:
        """Follow a batch or an ingest job until it has ended or is held. `state`: the known state."""
        looking = partial(self._looking_at, item)
        return EndWait(partial(self._item, item), has_ended, attrgetter("state"), looking, state)

    def _item(self, item: str, state: str | None, wait: float) -> Item:
        del state, wait  # The store answers at once; see _looking_at.
        return self.batch(item) if is_batch(item) else self.job(item)

    def _looking_at(self, item: str, look: Look[Item]) -> Looking[Item]:
        return Looking(partial(look, 0), partial(self._store.listen_to, item), REST_SECONDS)

    # ---------------------------------------------------------------- the whole queue

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Count batches and ingest jobs by state."""
        return self._store.counts()

    def explain(self, job: str) -> Sequence[str]:
        """Return why no consumer processes an ingest job, one sentence per reason; empty if it can be taken now."""
        found = self._store.job(check_item_id(job))
        table, holds = self._store.job_table, {hold.profile: hold for hold in self._store.holds()}
        why = []
        if found.state not in work_states(table):
            why.append(_because(f"it is {found.state}", found.message))
        if ALL in holds:
            why.append(_because(f"the queue is paused by {holds[ALL].who or 'another program'}", holds[ALL].reason))
        if found.profile in holds and has_row(table, found.state, HOLD_EVENT):
            why.append(holds[found.profile].in_words)
        if found.worker:
            why.append(f"{found.worker} has taken it")
        return [*why, *self._store.object_blockers(found.id)]

    def summary(self) -> Sequence[CollectionSummary]:
        """List the batches of each collection with their unfinished, failed and completed jobs, and their bytes."""
        return summarized(self._store.batches(BatchFilter()), self._store.jobs(JobFilter()))

    def metrics(self) -> Mapping[str, int | float]:
        """Count jobs, batches and gigabytes, by the names of Merritt's admin tool."""
        return merritt_metrics(self._store.batches(BatchFilter()), self._store.jobs(JobFilter()), self._store.foreign())

    def foreign(self) -> Mapping[str, Mapping[str, int]]:
        """Count other programs' entries beside the queue, by location and status. They are left alone."""
        return self._store.foreign()

    def faults(self) -> Sequence[Fault]:
        """List damage to the queue, each with the effect of a repair. Changes nothing."""
        return self._store.faults()


def _because(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what
