"""Arrivals for mapped jobs, folded into the list that find_next reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.mappings.sources import Listed
from headgate.core.ledger.model import DONE, READY, RUNNING
from headgate.core.ledger.sources import does_create, is_enough
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import mapping_statements as mapping_sql
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.changes import carry_out
from headgate.stores.sql.ledger.shapes import Shape
from headgate.stores.sql.ledger.sources import source_of, targets_of

#: Number of arrivals that one transaction folds.
STEP = 1000
#: Number of steps that one call takes before it continues with what is known.
MOST_FOLDS = 4
#: Number of failed chunks that new reference data reopens at a time; others have to be resubmitted.
MOST_FAILED = 5000
#: The name under which late arrivals are recorded.
WHO = "headgate"


class Arrival(NamedTuple):
    """A chunk became READY, or is no longer."""

    #: The input; empty: the data id belongs to the job, and is only re-evaluated.
    dataset: str
    dataid: str
    ready: bool


class Standing(NamedTuple):
    """The missing inputs of a data id of a job."""

    #: A bit for each input that is incomplete.
    missing: int = 0
    #: Whether an input creates it as a data id of the job.
    known: bool = False


def fold(tx: Transaction, shape: Shape) -> bool:
    """Fold the arrivals, oldest first. Returns whether there may be more."""
    if tx.one(mapping_sql.HAS_ARRIVALS, job=shape.id) is None:
        return False
    tx.one(mapping_sql.HOLD_JOB, job=shape.id)
    rows = tx.all(mapping_sql.READ_ARRIVALS, job=shape.id, limit=STEP)
    if not rows:
        return False
    names = {0: "", **{number: name for name, number in shape.ids.items()}}
    # What arrived in an input that the job no longer reads is no matter of it.
    known = [row for row in rows if int(row[1]) in names]
    fold_all(tx, shape, [Arrival(names[int(row[1])], str(row[2]), bool(row[3])) for row in known])
    tx.run(mapping_sql.DROP_ARRIVALS, numbers=[int(row[0]) for row in rows])
    return len(rows) == STEP


def fold_all(tx: Transaction, shape: Shape, arrivals: Sequence[Arrival]) -> None:
    """Re-evaluate every data id of the job that reads the arrivals. The job is locked meanwhile."""
    arrived = _by_target(tx, shape, arrivals)
    if not arrived:
        return
    fresh = sorted(dataid for dataid, news in arrived.items() if news)
    if fresh:
        tx.run(mapping_sql.CLEAR_COUNTS, datasets=shape.numbers, dataids=fresh, job=shape.id)
    statuses = _statuses(tx, shape, sorted(arrived))
    _list(tx, shape, sorted(arrived), statuses)
    for dataid in fresh:
        if statuses.get(dataid) in (READY, DONE):
            carry_out(tx, shape, dataid, partial(chunk_work.arrive, arrived=arrived[dataid], who=WHO))


def _by_target(tx: Transaction, shape: Shape, arrivals: Sequence[Arrival]) -> dict[str, set[tuple[str, str]]]:
    """For each affected data id of the job: what has become READY, by dataset and data id."""
    arrived: dict[str, set[tuple[str, str]]] = {}
    if any(each.ready and not shape.job.map_of(each.dataset).creates for each in arrivals if each.dataset):
        # Reference data: it makes nothing late, but chunks that failed without it may be retried.
        failed = tx.all(mapping_sql.READ_FAILED, job=shape.id, datasets=shape.numbers, limit=MOST_FAILED)
        arrived = {str(dataid): {("", "")} for (dataid,) in failed}
    for each in arrivals:
        for dataid in targets_of(tx, shape, each.dataset, each.dataid) if each.dataset else [each.dataid]:
            news = arrived.setdefault(dataid, set())
            if each.ready:
                news.add((each.dataset, each.dataid))
    return arrived


def _statuses(tx: Transaction, shape: Shape, dataids: Sequence[str]) -> Mapping[str, str]:
    rows = tx.all(
        mapping_sql.READ_STATUSES, dataset=shape.told, dataids=dataids, job=shape.id, kind=shape.job.counted.value
    )
    return {str(dataid): str(status) for dataid, status in rows}


def _list(tx: Transaction, shape: Shape, dataids: Sequence[str], statuses: Mapping[str, str]) -> None:
    """List those that may be claimable once nothing is missing; find_next checks each one."""
    open_ids = [each for each in dataids if statuses.get(each) not in (READY, DONE, RUNNING)]
    found = standings(tx, shape, open_ids)
    listed = [each for each in open_ids if found[each].known or each in statuses]
    if listed:
        tx.many(
            mapping_sql.FOLD,
            {
                "dataid": listed,
                "order_key": [shape.order_key(each) for each in listed],
                "missing": [found[each].missing for each in listed],
            },
            job=shape.id,
        )  # fmt: skip
    unknown = sorted(set(open_ids).difference(listed))
    if unknown:
        tx.run(sql.DROP_CANDIDATES, job=shape.id, dataids=unknown)


def standings(tx: Transaction, shape: Shape, dataids: Sequence[str]) -> dict[str, Standing]:
    """The missing inputs of each of them. Reference data does not depend on the data id."""
    found = dict.fromkeys(dataids, Standing())
    for place, name in enumerate(shape.job.inputs):
        if not shape.job.map_of(name).creates:
            continue
        for dataid, (complete, creates) in _of_input(tx, shape, name, dataids).items():
            missing, known = found[dataid]
            found[dataid] = Standing(missing | (0 if complete else 1 << place), known or creates)
    return found


def _of_input(tx: Transaction, shape: Shape, name: str, dataids: Sequence[str]) -> dict[str, tuple[bool, bool]]:
    """For each data id: whether its part of an input is complete, and whether that creates it."""
    mapping, found = shape.job.map_of(name), dict[str, tuple[bool, bool]]()
    listed: dict[str, tuple[str, ...]] = {}
    for dataid in dataids:
        wanted = mapping.sources(dataid)
        if isinstance(wanted, Listed):
            listed[dataid] = wanted.ids
        else:
            source = source_of(tx, shape, name, dataid)
            found[dataid] = (source.complete or source.exceeds, source.creates or source.exceeds)
    asked = sorted({each for ids in listed.values() for each in ids})
    rows = tx.all(sql.READ_READY, datasets=[shape.ids[name]], dataids=asked) if asked else []
    ready = {str(dataid) for _, dataid in rows}
    for dataid, ids in listed.items():
        there = ready.intersection(ids)
        found[dataid] = (is_enough(mapping, dataid, len(ids), there), does_create(mapping, dataid, there))
    return found
