"""Why chunks are late, according to the tables."""

from __future__ import annotations

from headgate.core.ledger.expectations.reasons import Cause, MadeElsewhere, Sightings, why_late
from headgate.core.ledger.snapshot import ChunkSnapshot
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import expectation_statements as sql
from headgate.stores.sql.ledger.shapes import Shape, dataset_of, shape_of
from headgate.stores.sql.ledger.snapshots import look, with_locks


class Reasons:
    """Reasons within one transaction; rows read for one are reused for the others."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._makers: dict[str, tuple[int, Shape | None]] = {}
        self._known: dict[tuple[str, str], ChunkSnapshot | MadeElsewhere] = {}

    def of(self, dataset: str, dataid: str) -> Cause:
        """Return why a chunk is not READY."""
        return why_late(dataset, dataid, self._look)

    def _look(self, dataset: str, dataid: str) -> ChunkSnapshot | MadeElsewhere:
        key = dataset, dataid
        if key not in self._known:
            number, shape = self._maker(dataset)
            self._known[key] = (
                _made_elsewhere(self._tx, number, dataid)
                if shape is None else with_locks(self._tx, look(self._tx, shape, dataid))
            )  # fmt: skip
        return self._known[key]

    def _maker(self, dataset: str) -> tuple[int, Shape | None]:
        if dataset not in self._makers:
            number, _ = dataset_of(self._tx, dataset)
            row = self._tx.one(sql.READ_PRODUCER, dataset=number)
            self._makers[dataset] = number, None if row is None else shape_of(self._tx, str(row[1]), share=False)
        return self._makers[dataset]


def _made_elsewhere(tx: Transaction, dataset: int, dataid: str) -> MadeElsewhere:
    row = tx.one(sql.READ_OUTPUT, dataset=dataset, dataid=dataid)
    seen = tx.one(sql.READ_WATCHER, dataset=dataset)
    if seen is None:
        return MadeElsewhere(row and (str(row[0]), str(row[1])), None)
    source, arrived, looked, last, waiting, problem, alive = seen
    watcher = Sightings(
        str(source), str(last), None if arrived is None else moment(arrived),
        None if looked is None else moment(looked), int(waiting), str(problem), bool(alive),
    )  # fmt: skip
    return MadeElsewhere(row and (str(row[0]), str(row[1])), watcher)
