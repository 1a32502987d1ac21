"""Claims and reports in one trip: the fast path. Everything else is left to the slow path (claims.py).

A job's definition is cached in the process, and each trip sends the stamp with which it was read: if a definition has
changed since, nothing is done and it is read again.
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

#: Number of claims after which find_next updates its starting point.
MARK_EVERY = 200
#: With the cached definition, and once more with the current one.
TRIES = 2
NO_KEYS = {"natural_key": b"", "text_key": b""}


@dataclass(frozen=True, slots=True)
class KnownJob:
    """The definition of a job when it was read."""

    shape: Shape
    #: The same for one-trip claims and reports.
    params: Parameters
    #: Whether the fast path may find a chunk of it: with two different orders data ids have two positions.
    plain: bool
    #: Whether it has mapped inputs, fans out, has mapped readers, or is recurring: only the slow path handles read
    #: sets, parts, arrivals and due chunks.
    mapped: bool


class QuickClaims:
    """The fast path of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows = database.options.chunk_rules.fast
        self._known: dict[str, KnownJob] = {}
        #: Jobs for which this process found a chunk the last time.
        self._busy: set[str] = set()

    def is_idle(self, job: str, asker: Asker) -> bool:
        """Whether a read-only query shows that there is nothing to claim. It is skipped while this process finds
        chunks, so that a claim costs no extra statement.
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
        """Record whether a search for a chunk of the job found one."""
        (self._busy.add if found else self._busy.discard)(job)

    def claim_next(self, job: str, asker: Asker) -> Claim | None:
        """The first chunk in order, if nothing about it needs a closer look."""
        asked = {"worker": asker.worker, "request_id": asker.request_id, "lease": to_micro(asker.lease)}

        def work(known: KnownJob) -> Claim | None:
            if not known.plain or known.mapped:
                self._known.pop(job, None)  # That may differ at the next request.
                return None
            found = self._database.dialect.claim_next(self._database, {**known.params, **asked})
            if found is None:
                return None
            dataid, token = found
            if token % MARK_EVERY == 0:
                with suppress(StoreUnavailable):  # The claim stands, whether or not this works.
                    self._database.dialect.raise_mark(self._database, job)
            return known.shape.claim(Claimed(dataid, 1, token, asker.worker, asker.lease, asker.lease))

        return self._try(job, work) if self._rows.claim else None

    def succeed(self, job: str, dataid: str, token: int, who: str) -> bool | None:
        """The claim was running and is done now; returns whether another process may be waiting for its news. None:
        nothing was done.
        """

        def work(known: KnownJob) -> bool | None:
            if known.mapped:
                self._known.pop(job, None)
                return None
            # Its position in the order, for its readers.
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
            except Duplicate:  # Meanwhile the chunk was claimed by its name, or a row was changed by hand.
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
