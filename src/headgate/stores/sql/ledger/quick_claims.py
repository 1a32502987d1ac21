"""Claims and reports in one trip: the fast path. What it does not do is left to the slow path (claims.py).

What a job reads and makes is kept in the process, and each trip carries the stamp that it was read with: where a
definition has changed since, nothing is done and it is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from headgate.core.errors import StoreUnavailable
from headgate.core.ledger.model import Asker, Claim
from headgate.core.ledger.ordering import Order, order_key
from headgate.core.ledger.rules import word_of
from headgate.stores.sql.database.dialect import JobParameters, Outdated, Parameters
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import to_micro
from headgate.stores.sql.database.transaction import Duplicate
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.recurrences import HAS_DUE
from headgate.stores.sql.ledger.shapes import JOB_COLUMNS, Claimed, Shape, build_shape

T = TypeVar("T")

#: Claims after which find_next learns where to begin.
MARK_EVERY = 200
#: With what is known, and once more with what is true now.
TRIES = 2
NO_KEYS = {"natural_key": b"", "text_key": b""}


@dataclass(frozen=True, slots=True)
class KnownJob:
    """The definition of a job when it was read."""

    shape: Shape
    #: The same for the one-trip claims and reports.
    params: Parameters
    #: Whether the fast path may find a chunk of it: data ids of two orders have two places.
    plain: bool
    #: Whether it has mapped inputs, fans out, others read it by mappings, or it does its chunks again: the slow path
    #: knows of read sets, parts, arrivals, and when a chunk is due.
    mapped: bool


class QuickClaims:
    """The fast path of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows = database.options.chunk_rules.fast
        self._known: dict[str, KnownJob] = {}
        #: Jobs in which this process found a chunk the last time.
        self._busy: set[str] = set()

    def is_idle(self, job: str, asker: Asker) -> bool:
        """Whether a read shows that there is nothing to claim. Nothing is read while this process finds chunks, so that
        a claim costs no statement more.
        """
        known = None if job in self._busy else self._known.get(job) or self._read(job)
        if known is None:
            return False
        asked = {
            "stamp": known.params["stamp"], "job": known.shape.id, "request_id": asker.request_id,
            "paused": int(bool(known.shape.job.paused)),
        }  # fmt: skip
        recur = known.shape.job.recur
        if recur and self._database.single(HAS_DUE, job=known.shape.id, recur=to_micro(recur))[0][0]:
            return False
        return not self._database.single(sql.MAY_FIND, **asked)[0][0]

    def note(self, job: str, *, found: bool) -> None:
        """Note whether a look for a chunk of the job found one."""
        (self._busy.add if found else self._busy.discard)(job)

    def claim_next(self, job: str, asker: Asker) -> Claim | None:
        """The first chunk in order, if nothing about it needs a closer look."""
        asked = {"worker": asker.worker, "request_id": asker.request_id, "lease": to_micro(asker.lease)}

        def work(known: KnownJob) -> Claim | None:
            if not known.plain or known.mapped:
                self._known.pop(job, None)  # It may be when it is asked for again.
                return None
            found = self._database.dialect.claim_next(self._database, {**known.params, **asked})
            if found is None:
                return None
            dataid, token = found
            if token % MARK_EVERY == 0:
                with suppress(StoreUnavailable):  # The claim is made, whether this works or not.
                    self._database.dialect.raise_mark(self._database, job)
            return known.shape.claim(Claimed(dataid, 1, token, asker.worker, asker.lease, asker.lease))

        return self._try(job, work) if self._rows.claim else None

    def succeed(self, job: str, dataid: str, token: int, who: str) -> bool | None:
        """The claim ran, and is done now: whether somebody may listen to the news of it. None: nothing was done."""

        def work(known: KnownJob) -> bool | None:
            if known.mapped:
                self._known.pop(job, None)
                return None
            # Where it comes in the order, for those who read it.
            orders = (Order.NATURAL, Order.TEXT) if known.params["read"] else ()
            keys = {f"{order}_key": order_key(dataid, order) for order in orders} or NO_KEYS
            told = {**known.params, "dataid": dataid, "token": token, "who": who, **keys}
            return self._database.dialect.succeed(self._database, told)

        return None if self._rows.success is None else self._try(job, work)

    def _try(self, job: str, work: Callable[[KnownJob], T | None]) -> T | None:
        for _ in range(TRIES):
            known = self._known.get(job) or self._read(job)
            if known is None:
                return None
            try:
                return work(known)
            except Outdated:
                self._known.pop(job, None)
            except Duplicate:  # Somebody claimed the chunk by its name meanwhile, or changed a row by hand.
                return None
        return None

    def _read(self, name: str) -> KnownJob | None:
        rows = self._database.single(sql.KNOW_JOB, name=name)
        if not rows:
            return None
        shape = build_shape(rows[0][3 : 3 + JOB_COLUMNS], [row[3 + JOB_COLUMNS :] for row in rows])
        job, made = shape.job, self._rows.success
        known = JobParameters(
            stamp=str(rows[0][0]), job=shape.id, datasets=tuple(shape.numbers),
            inputs=tuple(sorted(shape.ids[each] for each in job.inputs)), names=tuple(shape.datasets),
            told=shape.told, made=word_of(made.target, job.counted) if made else "", read=any(row[1] for row in rows),
        )  # fmt: skip
        plain = not job.paused and len({each.order for each in shape.datasets.values()}) == 1
        self._known[name] = KnownJob(
            shape, self._database.dialect.as_parameters(known), plain,
            bool(job.fan_out) or any(row[2] for row in rows) or job.recur > 0,
        )  # fmt: skip
        return self._known[name]
