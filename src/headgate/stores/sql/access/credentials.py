"""Secrets and keys in SQL: sealed copies and proofs. This code cannot open anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headgate.core.access.credentials import (
    MASTER,
    Custody,
    CustodyChange,
    JobKey,
    MasterWrap,
    Sealed,
    check_holders,
    parse_proofs,
)
from headgate.core.ledger.model import Dataset
from headgate.stores.sql.access import credential_statements as sql
from headgate.stores.sql.database.facts import READ_FACTS
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as ledger_statements
from headgate.stores.sql.ledger.shapes import dataset_of, shape_of, stamp_definitions

#: The name prefix of a fact that proves a master key; its number follows.
MASTER_CHECK = "master_check."


def dataset_custody(tx: Transaction, name: str, users: Statement = sql.READ_USERS) -> Custody:
    """All stored data about the secrets of one dataset."""
    number, dataset = dataset_of(tx, name)
    found = [(int(job), str(job_name), str(proofs)) for job, job_name, proofs in tx.all(users, dataset=number)]
    jobs = {job: (job_name, proofs) for job, job_name, proofs in found if dataset.may_hold(job_name)}
    names = {job: job_name for job, job_name, _ in found}
    copies = [_sealed(row, names) for row in tx.all(sql.READ_COPIES, dataset=number)]
    return Custody(
        name, "", {name: _versions(dataset)}, _keys(tx, jobs), tuple(copies), _least_master(tx), _allowed([dataset])
    )


def job_custody(tx: Transaction, name: str) -> Custody:
    """All stored data about the keys of one job, and the secrets that they open."""
    shape = shape_of(tx, name, share=False)
    secrets = {
        each: _versions(dataset) if dataset.may_hold(name) else {} for each, dataset in sorted(shape.datasets.items())
    }
    found = tx.all(sql.READ_OWN_COPIES, datasets=sorted(shape.ids.values()), job=shape.id)
    copies = [_sealed(row, {shape.id: name}) for row in found]
    keys = _keys(tx, {shape.id: (name, shape.key_check)})
    return Custody("", name, secrets, keys, tuple(copies), _least_master(tx), _allowed(shape.datasets.values()))


def change_custody(tx: Transaction, known: Custody, change: CustodyChange) -> bool:
    """Write the change, if everything is still as it was read. The datasets are locked first, then the jobs."""
    datasets = {str(row[1]): int(row[0]) for row in tx.all(ledger_statements.OWN_DATASETS, names=sorted(known.secrets))}
    if _read_held(tx, known) != known:
        return False
    check_holders(known, change)
    jobs = {MASTER: 0}
    for name in {each.job for each in (*change.put, *change.drop)} | ({known.job} if known.job else set()):
        jobs[name] = 0 if name == MASTER else int(tx.one(ledger_statements.READ_JOB, name=name)[0])
    for copy in (*change.drop, *change.put):
        tx.run(sql.DROP_COPY, **_key(copy, datasets, jobs))
    for copy in change.put:
        tx.run(
            sql.ADD_COPY, **_key(copy, datasets, jobs), version=copy.version, wrap=copy.wrap, sealed=copy.sealed,
            master_id=copy.master_id, master_wrap=copy.master_wrap,
        )  # fmt: skip
    if change.keys is not None:
        _write_keys(tx, jobs[known.job], change.keys)
    if change.versions is not None:
        texts = {name: str(version) for name, version in change.versions.items()}
        tx.run(sql.SET_VERSIONS, id=datasets[known.dataset], secrets=json.dumps(texts, sort_keys=True))
    stamp_definitions(tx)
    return True


def master_wraps(tx: Transaction, before: int, limit: int) -> Sequence[MasterWrap]:
    """Everything under an earlier master key than that one."""
    rows = tx.all(sql.READ_OLD_WRAPS, before=before, limit=limit)
    rows += tx.all(sql.READ_OLD_ESCROWS, before=before, limit=limit)
    return [
        MasterWrap(str(dataset), str(name), str(job), int(generation), int(number), str(wrap))
        for dataset, name, job, generation, number, wrap in rows[:limit]
    ]


def rewrap(tx: Transaction, pairs: Iterable[tuple[MasterWrap, MasterWrap]]) -> int:
    """Rewrap each value from one master key to another, if it is still as it was read."""
    count = 0
    for old, new in pairs:
        where: dict[str, object] = {"dataset": old.dataset, "name": old.name} if old.dataset else {}
        count += tx.count(
            sql.REWRAP_COPY if old.dataset else sql.REWRAP_ESCROW, **where, job=old.job, generation=old.generation,
            was_id=old.master_id, was_wrap=old.wrap, master_id=new.master_id, master_wrap=new.wrap,
        )  # fmt: skip
    return count


def refuse_masters(tx: Transaction, before: int) -> None:
    """Older master keys are no longer accepted."""
    tx.run(sql.ADD_LEAST_MASTER, value=str(before))
    if _least_master(tx) < before:
        tx.run(sql.SET_LEAST_MASTER, value=str(before))


def masters(tx: Transaction) -> dict[int, str]:
    """The proof of each master key that seals secrets here."""
    facts = {str(name): str(value) for name, value in tx.all(READ_FACTS)}
    return {
        int(name.removeprefix(MASTER_CHECK)): value for name, value in facts.items() if name.startswith(MASTER_CHECK)
    }


def know_master(tx: Transaction, number: int, check: str) -> str:
    """The proof of that master key: the recorded one, or else this one from now on."""
    name = f"{MASTER_CHECK}{number}"
    tx.run(sql.ADD_CHECK, name=name, value=check)
    return str(tx.one(sql.HOLD_CHECK, name=name)[0])


def forget_masters(tx: Transaction) -> int:
    """Remove everything under a master key, and all proofs."""
    dropped = tx.count(sql.DROP_MASTER_COPIES) + tx.count(sql.DROP_MASTER_WRAPS) + tx.count(sql.DROP_ALL_ESCROWS)
    for number in masters(tx):
        tx.run(sql.DROP_CHECK, name=f"{MASTER_CHECK}{number}")
    stamp_definitions(tx)
    return dropped


def _read_held(tx: Transaction, known: Custody) -> Custody:
    if known.dataset:
        return dataset_custody(tx, known.dataset, sql.LOCK_USERS)
    tx.one(ledger_statements.LOCK_JOB, name=known.job)
    return job_custody(tx, known.job)


def _write_keys(tx: Transaction, job: int, keys: Sequence[JobKey]) -> None:
    tx.run(sql.SET_PROOFS, id=job, key_check=" ".join(key.proof for key in keys))
    tx.run(sql.DROP_ESCROWS, job=job)
    for key in keys:
        if key.master_id:
            tx.run(sql.ADD_ESCROW, job=job, generation=key.generation, master_id=key.master_id, master_wrap=key.escrow)


def _keys(tx: Transaction, jobs: Mapping[int, tuple[str, str]]) -> tuple[JobKey, ...]:
    proven = {number: parse_proofs(name, text) for number, (name, text) in jobs.items() if text}
    if not proven:
        return ()
    rows = tx.all(sql.READ_ESCROWS, jobs=sorted(proven))
    escrows = {(int(job), int(generation)): (int(number), str(wrap)) for job, generation, number, wrap in rows}
    return tuple(_with_escrow(key, escrows.get((job, key.generation))) for job, keys in proven.items() for key in keys)


def _with_escrow(key: JobKey, found: tuple[int, str] | None) -> JobKey:
    return key if found is None else replace(key, master_id=found[0], escrow=found[1])


def _sealed(row: Row, jobs: Mapping[int, str]) -> Sealed:
    dataset, name, job, generation, version, wrap, sealed, master_id, master_wrap = row
    return Sealed(
        str(dataset), str(name), jobs.get(int(job), MASTER), int(generation), int(version), str(wrap), str(sealed),
        int(master_id), str(master_wrap),
    )  # fmt: skip


def _allowed(datasets: Iterable[Dataset]) -> dict[str, tuple[str, ...]]:
    return {each.name: each.secret_jobs for each in datasets if each.secret_jobs is not None}


def _versions(dataset: Dataset) -> dict[str, int]:
    return {name: int(version) for name, version in dataset.secrets.items()}


def _least_master(tx: Transaction) -> int:
    row = tx.one(sql.READ_LEAST_MASTER)
    return 0 if row is None else int(row[0])


def _key(copy: Sealed, datasets: Mapping[str, int], jobs: Mapping[str, int]) -> dict[str, object]:
    return {
        "dataset": datasets[copy.dataset], "name": copy.name, "job": jobs[copy.job], "generation": copy.generation,
    }  # fmt: skip
