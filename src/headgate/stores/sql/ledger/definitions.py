"""Datasets and jobs in SQL: defining and pausing them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.core.errors import Refused
from headgate.core.ledger.model import COMMANDS_EVENT, FAN_OUT, Dataset, Defined, Job, Kind
from headgate.core.ledger.pipeline import check_beside, differences, warnings_for
from headgate.stores.sql.access.credential_statements import DROP_COPIES_OF, DROP_STRAY_COPIES, READ_HOLDERS
from headgate.stores.sql.database.moments import to_micro
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.arrivals import Arrival, fold, fold_all
from headgate.stores.sql.ledger.candidates import BATCH, ConsumingJob, clear_missing, consumers_of
from headgate.stores.sql.ledger.changes import refresh_candidate
from headgate.stores.sql.ledger.expectations import expect
from headgate.stores.sql.ledger.mapping_statements import DROP_ALL_ARRIVALS, DROP_ALL_READS
from headgate.stores.sql.ledger.recurrences import start_over
from headgate.stores.sql.ledger.rows import job_names
from headgate.stores.sql.ledger.shapes import Shape, all_datasets, all_jobs, read_dataset, shape_of, stamp_definitions

#: Number of data ids of a dataset that are checked against a mapping.
SAMPLE = 20


def define(tx: Transaction, datasets: Sequence[Dataset], jobs: Sequence[Job]) -> Defined:
    """New datasets and jobs, or other definitions of them. Warnings are those that were not there before."""
    named = {each.name for each in datasets} | {name for job in jobs for name in job.uses}
    tx.all(sql.OWN_DATASETS, names=sorted(named))  # In a fixed order, independent of the order of the definitions.
    known = _warnings(tx) if jobs else []
    changes = [line for each in datasets for line in define_dataset(tx, each)]
    changes += [line for each in jobs for line in _define_job(tx, each)]
    warnings = [line for line in _warnings(tx) if line not in known] if jobs else []
    return Defined(tuple(changes), tuple(warnings))


def _warnings(tx: Transaction) -> list[str]:
    datasets = {dataset.name: number for number, dataset in all_datasets(tx).items()}
    jobs = list(all_jobs(tx).values())
    mapped = {name for job in jobs for name in job.maps}
    published = {
        name: [str(each) for (each,) in tx.all(sql.READ_CHUNKS_OF, dataset=number, after="", limit=SAMPLE)]
        for name, number in datasets.items()
        if name in mapped or tx.one(sql.HAS_READY, dataset=number)
    }
    return warnings_for(jobs, {name: found for name, found in published.items() if found})


def define_dataset(tx: Transaction, dataset: Dataset) -> Sequence[str]:
    """A new dataset, or another definition of one. Its secrets are stored separately, and stay."""
    row = next(iter(tx.all(sql.OWN_DATASETS, names=[dataset.name])), None)
    number, old = (0, None) if row is None else read_dataset(row)
    dataset = replace(dataset, secrets=old.secrets if old else {})
    changes = differences(old, dataset)
    if not changes:
        return ()
    columns = {
        "uri": dataset.uri, "dataid_order": str(dataset.order), "settings": _json(dataset.settings),
        "secrets": _json(dataset.secrets),
        "expect": _json(dataset.expect) if dataset.expect else None,
        "secret_jobs": None if dataset.secret_jobs is None else json.dumps(dataset.secret_jobs, ensure_ascii=False),
    }  # fmt: skip
    if old is None:
        tx.run(sql.ADD_DATASET, name=dataset.name, **columns)
        if dataset.expect:
            expect(tx, int(tx.one(sql.READ_DATASET, name=dataset.name)[0]), something=True, before=False)
        return changes
    if old.order is not dataset.order and tx.one(sql.HAS_CHUNKS, dataset=number):
        raise Refused(f"dataset {dataset.name} already has chunks in {old.order} order; the order cannot be changed")
    tx.run(sql.CHANGE_DATASET, id=number, **columns)
    for job in {str(name) for (name,) in tx.all(READ_HOLDERS, dataset=number)}:
        if not dataset.may_hold(job):
            tx.run(DROP_COPIES_OF, dataset=number, job=job)
    stamp_definitions(tx)
    if old.expect != dataset.expect:
        expect(tx, number, something=bool(dataset.expect), before=bool(old.expect))
        _reconsider(tx, number)
    return changes


def _reconsider(tx: Transaction, dataset: int) -> None:
    """The claimable chunks of mapped jobs depend on the expectations of their inputs."""
    names = job_names(tx)
    for each in consumers_of(tx, [dataset]):
        if each.mapped:
            rebuild(tx, shape_of(tx, names[each.id], share=False))


def _define_job(tx: Transaction, job: Job) -> Sequence[str]:
    """A new job, or another definition of one. Its claimable chunks are recomputed when its inputs change."""
    datasets = {dataset.name: number for number, dataset in all_datasets(tx).items()}
    jobs = all_jobs(tx)
    check_beside(job, datasets, jobs.values())
    old = next((each for each in jobs.values() if each.name == job.name), None)
    changes = differences(old, job)
    if changes:
        _write_job(tx, old, job, datasets)
        stamp_definitions(tx)
    return changes


def _write_job(tx: Transaction, old: Job | None, job: Job, datasets: Mapping[str, int]) -> None:
    columns: dict[str, object] = {
        "environment": _json(job.environment), "max_attempts": job.max_attempts, "max_crashes": job.max_crashes,
        "max_interruptions": job.max_interruptions, "stop_exit": str(job.stop_exit),
        "retry_delay": to_micro(job.retry_delay), "on_failure": str(job.on_failure), "mapped": job.mapped,
        "recur": to_micro(job.recur),
    }  # fmt: skip
    if old is None:
        tx.run(sql.ADD_JOB, name=job.name, **columns)
    number = int(tx.one(sql.LOCK_JOB, name=job.name)[0])
    if old is not None:
        tx.run(sql.CHANGE_JOB, id=number, **columns)
        if _links(old) == _links(job):
            if old.recur != job.recur:
                start_over(tx, shape_of(tx, job.name, share=False))
            return
        _refuse_running(tx, shape_of(tx, job.name, share=False))
        tx.run(sql.DROP_LINKS, job=number)
    for kind, names in ((Kind.INPUT.value, job.inputs), (Kind.OUTPUT.value, job.outputs), (FAN_OUT, job.fan_out)):
        for position, name in enumerate(names):
            mapping = job.maps.get(name)
            text = None if mapping is None else json.dumps(mapping.to_document(), ensure_ascii=False)
            tx.run(sql.ADD_LINK, job=number, dataset=datasets[name], kind=kind, position=position, mapping=text)
    tx.run(DROP_STRAY_COPIES, job=number)
    rebuild(tx, shape_of(tx, job.name, share=False))


def _links(job: Job) -> tuple[object, ...]:
    """Its inputs and outputs, with their mappings."""
    return job.inputs, job.outputs, job.fan_out, job.maps


def _refuse_running(tx: Transaction, shape: Shape) -> None:
    busy = tx.one(sql.READ_BUSY, job=shape.id, datasets=shape.numbers, limit=1)
    if busy:
        told = f"job {shape.job.name} is processing {busy[0]}"
        raise Refused(f"{told}; its inputs and outputs can be changed when it has no running claim")


def rebuild(tx: Transaction, shape: Shape) -> None:
    """Compute the claimable chunks of one job. The job's datasets are locked meanwhile."""
    tx.run(sql.DROP_ALL_CANDIDATES, job=shape.id)
    while shape.job.mapped and fold(tx, shape):
        pass  # Late inputs are also late by the new definition.
    tx.run(DROP_ALL_ARRIVALS, job=shape.id)
    if shape.job.mapped:
        for name in shape.job.creators:
            for batch in _pages(tx, sql.READ_CHUNKS_OF, {"dataset": shape.ids[name]}):
                fold_all(tx, shape, [Arrival(name, dataid, ready=False) for dataid in batch])
    else:
        tx.run(DROP_ALL_READS, job=shape.id)
        _list_ready(tx, shape)
    for dataset in shape.numbers:
        for batch in _pages(tx, sql.READ_STARTED, {"dataset": dataset, "job": shape.id}):
            for dataid in batch:
                refresh_candidate(tx, shape, dataid)
    start_over(tx, shape)


def _list_ready(tx: Transaction, shape: Shape) -> None:
    """READY chunks may be claimable, if the job has the same data ids."""
    inputs = tuple(shape.ids[name] for name in shape.job.inputs)
    for dataset in inputs:
        consumer = ConsumingJob(shape.id, inputs, shape.datasets[shape.job.inputs[0]].order)
        for batch in _pages(tx, sql.READ_CHUNKS_OF, {"dataset": dataset}):
            clear_missing(tx, consumer, [dataset], batch)


def _pages(tx: Transaction, statement: Statement, params: dict[str, object]) -> Iterator[list[str]]:
    after = ""
    while page := [str(row[0]) for row in tx.all(statement, **params, after=after, limit=BATCH)]:
        yield page
        after = page[-1]


def pause(tx: Transaction, name: str, paused: str, who: str) -> Job:
    """Pause a job with a reason, or resume it."""
    row = tx.one(sql.LOCK_JOB, name=name)
    shape = shape_of(tx, name, share=False)
    if row is None or shape.job.paused == paused:
        return shape.job
    tx.run(sql.PAUSE_JOB, id=shape.id, paused=paused)
    event, before, after = ("pause", "active", "paused") if paused else ("unpause", "paused", "active")
    tx.run(
        sql.RECORD_JOB, event=event, job=shape.id, who=who, before=before, after=after, reason=paused,
    )  # fmt: skip
    stamp_definitions(tx)
    return shape_of(tx, name, share=False).job


def note_commands(tx: Transaction, name: str, digest: str, who: str) -> bool:
    """Record that another file defines a job's commands. False: it is the same file."""
    row = tx.one(sql.READ_COMMANDS, name=name)
    if row is None:
        shape_of(tx, name, share=False)  # The error says what is missing.
        return False
    number, before = int(row[0]), str(row[1])
    if before == digest:
        return False
    tx.run(sql.NOTE_COMMANDS, id=number, digest=digest)
    tx.run(
        sql.RECORD_JOB, event=COMMANDS_EVENT, job=number, who=who, before="", after="",
        reason=f"commands of the pipeline file with SHA-256 {digest}",
    )  # fmt: skip
    return True


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), ensure_ascii=False, sort_keys=True)
