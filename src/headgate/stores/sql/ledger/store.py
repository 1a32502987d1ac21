"""The ledger in SQL: the port's methods, one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headgate.calls.deadlines import LEDGER_CALLS, answered_in_time
from headgate.calls.idempotency import is_keyed
from headgate.core.filters import RowFilter, SpanFilter
from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.claims import may_claim
from headgate.core.ledger.model import Asker, Change, Claim, Dataset, Defined, Job, Recurrence, Row
from headgate.core.ledger.verdicts import Plan, Verdict
from headgate.core.locks.model import Lock
from headgate.core.logs import Log, LogStream, LogText
from headgate.stores.sql.database.engine import Database, FastPath
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import claims as claiming
from headgate.stores.sql.ledger import closing, definitions, overrides
from headgate.stores.sql.ledger.changes import on_chunk
from headgate.stores.sql.ledger.quick_claims import QuickClaims
from headgate.stores.sql.ledger.recurrences import read_recurrences
from headgate.stores.sql.ledger.shapes import all_datasets, all_jobs, shape_of
from headgate.stores.sql.ledger.snapshots import look, with_locks
from headgate.stores.sql.news.topics import ANYTHING, News, Subscription, of_data, of_dataset, of_job

if TYPE_CHECKING:
    from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
    from headgate.core.ledger.census import Span, Tally
    from headgate.core.ledger.fan import ChunkLink, FanIn
    from headgate.core.ledger.parts import Listed
    from headgate.core.ledger.selection import BulkRequest, BulkResult
    from headgate.stores.sql.ledger.expectations import SqlExpectations
    from headgate.stores.sql.ledger.incidents import SqlIncidents

#: Number of new chunks after which a planner that assumes empty tables plans badly.
MANY = 1000


@answered_in_time(LEDGER_CALLS)
class SqlLedger:
    """Datasets, jobs and chunks in one SQL database."""

    def __init__(self, database: Database, tag: str, news: News) -> None:
        self.name = database.name
        self.options = database.options
        self._database = database
        self._news = news
        self._tag = tag
        self._sizes_known = False
        self._reaped_many = False
        self._quick = QuickClaims(database)

    @cached_property
    def incidents(self) -> SqlIncidents:
        """Incidents."""
        from headgate.stores.sql.ledger.incidents import SqlIncidents

        return SqlIncidents(self._database)

    @cached_property
    def expectations(self) -> SqlExpectations:
        """Expectations."""
        from headgate.stores.sql.ledger.expectations import SqlExpectations

        return SqlExpectations(self._database)

    def define(self, datasets: Sequence[Dataset], jobs: Sequence[Job]) -> Defined:
        return self._news.write(lambda tx: definitions.define(tx, datasets, jobs), ANYTHING)

    def datasets(self) -> Sequence[Dataset]:
        return sorted(self._database.read(all_datasets).values(), key=lambda each: each.name)

    def jobs(self) -> Sequence[Job]:
        return sorted(self._database.read(all_jobs).values(), key=lambda each: each.name)

    def job(self, job: str) -> tuple[Job, Sequence[Dataset]]:
        shape = self._database.read(lambda tx: shape_of(tx, job, share=False))
        return shape.job, list(shape.datasets.values())

    # The module for secrets is imported on first use: most jobs have none, and start faster without it.

    def dataset_custody(self, dataset: str) -> Custody:
        from headgate.stores.sql.access import credentials

        return self._database.read(lambda tx: credentials.dataset_custody(tx, dataset))

    def job_custody(self, job: str) -> Custody:
        from headgate.stores.sql.access import credentials

        return self._database.read(lambda tx: credentials.job_custody(tx, job))

    def change_custody(self, known: Custody, change: CustodyChange) -> bool:
        from headgate.stores.sql.access import credentials

        return self._database.write_through(lambda tx: credentials.change_custody(tx, known, change))

    def master_wraps(self, before: int, limit: int) -> Sequence[MasterWrap]:
        from headgate.stores.sql.access import credentials

        return self._database.read(lambda tx: credentials.master_wraps(tx, before, limit))

    def rewrap(self, pairs: Sequence[tuple[MasterWrap, MasterWrap]]) -> int:
        from headgate.stores.sql.access import credentials

        return self._database.write_through(lambda tx: credentials.rewrap(tx, pairs))

    def refuse_masters(self, before: int) -> None:
        from headgate.stores.sql.access import credentials

        self._database.write_through(lambda tx: credentials.refuse_masters(tx, before))

    def masters(self) -> Mapping[int, str]:
        from headgate.stores.sql.access import credentials

        return self._database.read(credentials.masters)

    def know_master(self, number: int, check: str) -> str:
        from headgate.stores.sql.access import credentials

        return self._database.write_through(lambda tx: credentials.know_master(tx, number, check))

    def forget_masters(self) -> int:
        from headgate.stores.sql.access import credentials

        return self._database.write_through(credentials.forget_masters)

    def publish(self, dataset: str, dataids: Sequence[str], who: str) -> int:
        count = self._news.write(lambda tx: overrides.publish(tx, dataset, dataids, who), of_dataset(dataset))
        if count >= MANY and not self._sizes_known:
            self._sizes_known = True
            self._database.dialect.learn_sizes(self._database)
        return count

    def find_next(self, job: str, asker: Asker) -> Claim | None:
        if not self._database.dialect.one_writer:
            return self._find_next(job, asker)
        if self._quick.is_idle(job, asker):
            return None  # A worker that finds nothing must not block writers.
        found = self._find_next(job, asker)
        self._quick.note(job, found=found is not None)
        return found

    def _find_next(self, job: str, asker: Asker) -> Claim | None:
        after = None
        with FastPath() as fast:
            if asker.fresh and (quick := self._quick.claim_next(job, asker)):
                return quick
        while True:
            found = self._database.write_through(
                lambda tx: claiming.find_next(tx, job, asker, after),  # noqa: B023 - run at once
                again=fast.cut_off,
            )
            if not isinstance(found, claiming.SearchPosition):
                return found
            after = found

    def listen(self, job: str, wake: Callable[[], None]) -> Subscription:
        known = self.job(job)[0]
        makers = [each.name for each in self.jobs() if set(known.inputs).intersection(each.makes)]
        # A lock on its output blocks it, too.
        return self._news.listen([*map(of_job, [job, *makers]), *map(of_dataset, {*known.uses})], wake)

    def claim(self, job: str, dataid: str, asker: Asker) -> Claim:
        return self._database.write_through(lambda tx: claiming.claim(tx, job, dataid, asker))

    def force(self, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
        return self._database.write_through(lambda tx: claiming.force(tx, job, dataid, asker, reason, steal=steal))

    def success(self, job: str, dataid: str, token: int, who: str, listed: Listed | None = None) -> None:
        topics = _of_claim(job, dataid)
        with FastPath() as fast:
            if not listed and not is_keyed() and (listened := self._quick.succeed(job, dataid, token, who)) is not None:
                self._news.announce(topics, listened=listened)
                return
        self._news.write(
            lambda tx: claiming.succeed(tx, job, dataid, token, who, listed), *topics, again=fast.cut_off
        )  # fmt: skip

    def fail(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        unit = partial(chunk_work.fail, token=token, message=message, who=who)
        self._news.write(lambda tx: on_chunk(tx, job, dataid, unit).result, *_of_claim(job, dataid))

    def interrupt(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        topics = _of_claim(job, dataid)
        self._news.write(lambda tx: claiming.interrupt(tx, job, dataid, token, message, who), *topics)

    def heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        return self._database.write_through(lambda tx: claiming.heartbeat(tx, job, dataid, token, lease))

    # The module for logs is imported on first use: a command without output has none.

    def keep_log(self, job: str, dataid: str, token: int, texts: Sequence[LogText], *, ended: bool) -> None:
        from headgate.stores.sql.logs import keep_claim_log

        self._database.write_through(lambda tx: keep_claim_log(tx, (job, dataid, token), texts, ended=ended))

    def logs(self, job: str, dataid: str, attempt: int | None, stream: LogStream | None, limit: int) -> Sequence[Log]:
        from headgate.stores.sql.logs import read_logs

        return self._database.read(
            lambda tx: read_logs(tx, shape_of(tx, job, share=False).id, dataid, attempt, stream, limit)
        )

    def resubmit(
        self, job: str, dataids: Sequence[str], reason: str, who: str, *, downstream: bool, steal: bool, dry_run: bool
    ) -> Sequence[Change]:
        wish = overrides.Resubmission(reason, who, downstream, steal, dry_run)
        topics = [ANYTHING] if downstream or steal else [of_job(job)]
        return self._news.write(lambda tx: overrides.resubmit(tx, job, dataids, wish), *topics)

    def change_selected(self, job: str, wish: BulkRequest) -> BulkResult:
        from headgate.stores.sql.ledger.selections import change_selected

        return self._news.write(lambda tx: change_selected(tx, job, wish), ANYTHING)

    def hold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        unit = partial(chunk_work.hold, reason=reason, who=who)
        return self._news.write(lambda tx: on_chunk(tx, job, dataid, unit).result, of_job(job))

    def unhold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        unit = partial(chunk_work.unhold, reason=reason, who=who)
        return self._news.write(lambda tx: on_chunk(tx, job, dataid, unit).changes(dataid), of_job(job))

    def close(self, job: str, dataid: str, reason: str, who: str, *, reopen: bool) -> bool:
        return self._news.write(lambda tx: closing.close(tx, job, dataid, reason, who, reopen=reopen), of_job(job))

    def forget(self, job: str, dataid: str, reason: str, who: str, *, steal: bool) -> Sequence[Change]:
        unit = partial(chunk_work.forget, reason=reason, who=who, steal=steal)
        return self._news.write(lambda tx: on_chunk(tx, job, dataid, unit).changes(dataid), *_of_claim(job, dataid))

    def set_status(self, row: Row, reason: str, who: str) -> Change:
        return self._news.write(lambda tx: overrides.set_status(tx, row, reason, who), ANYTHING)

    def pause(self, job: str, reason: str, who: str) -> Job:
        return self._news.write(lambda tx: definitions.pause(tx, job, reason, who), of_job(job))

    def note_commands(self, job: str, digest: str, who: str) -> bool:
        return self._database.write_through(lambda tx: definitions.note_commands(tx, job, digest, who))

    def reap(self, who: str, limit: int = 1000) -> int:
        from headgate.stores.sql.ledger.reaping import reap

        count = reap(self._database, who, limit)
        if count:
            self._news.announce([ANYTHING])
        if count >= MANY and not self._reaped_many:
            # Reaped chunks may be claimed again, but the database's plans assume a nearly empty table.
            self._reaped_many = True
            self._database.dialect.learn_sizes(self._database)
        return count

    def explain(self, job: str, dataid: str) -> Verdict:
        def work(tx: Transaction) -> Verdict:
            return may_claim(with_locks(tx, look(tx, shape_of(tx, job, share=False), dataid)))

        return self._database.read(work)

    def plan(self, job: str, limit: int) -> Plan:
        from headgate.stores.sql.ledger.planning import ask_plan

        return ask_plan(self._database, job, limit)

    def left(self, job: str, most: int) -> int:
        from headgate.stores.sql.ledger.planning import ask_left

        return ask_left(self._database, job, most)

    def recurrences(self) -> Sequence[Recurrence]:
        return self._database.read(read_recurrences)

    def fan_in(self, job: str, dataids: Sequence[str], most: int) -> Sequence[FanIn]:
        from headgate.stores.sql.ledger.fan import ask_fan_in

        return ask_fan_in(self._database, job, dataids, most)

    def readers(self, dataset: str, dataid: str, most: int) -> Sequence[ChunkLink]:
        from headgate.stores.sql.ledger.fan import ask_readers

        return ask_readers(self._database, dataset, dataid, most)

    def rows(self, which: RowFilter) -> Sequence[Row]:
        from headgate.stores.sql.ledger.questions import ask_rows

        return ask_rows(self._database, which)

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        from headgate.stores.sql.ledger.questions import ask_failures

        return ask_failures(self._database, limit, after)

    def standing(self) -> Sequence[Tally]:
        from headgate.stores.sql.ledger.counts import ask_standing

        return ask_standing(self._database)

    def tallies(self, most: int) -> Sequence[Tally]:
        from headgate.stores.sql.ledger.counts import ask_tallies

        return ask_tallies(self._database, most)

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        from headgate.stores.sql.ledger.counts import ask_spans

        return ask_spans(self._database, which)

    def running(self) -> Sequence[Lock]:
        from headgate.stores.sql.ledger.questions import ask_running

        return ask_running(self._database, self._tag)


def _of_claim(job: str, dataid: str) -> tuple[str, str]:
    """The topics of a claim that ends: others can claim the job's chunks, or lock the data."""
    return of_job(job), of_data(dataid)
