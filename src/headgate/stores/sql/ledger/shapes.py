"""Datasets and jobs in SQL: reading them, with their numbers in the tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headgate.core.errors import UnknownName
from headgate.core.ledger.mappings.model import InputMap
from headgate.core.ledger.mappings.parsing import parse_map
from headgate.core.ledger.model import EXTERNAL, FAN_OUT, Claim, Dataset, Job, Kind, OnFailure, Port, StopExit
from headgate.core.ledger.ordering import Order, order_key
from headgate.core.ledger.parts import Part
from headgate.core.ledger.sources import Reading
from headgate.core.values.words import as_sentence, suggestion
from headgate.stores.sql.database.moments import to_seconds
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.mapping_statements import READ_MAPPED_READERS

#: Maximum number of names that an error lists.
MOST_LISTED = 12
#: Number of columns of a job's definition.
JOB_COLUMNS = 12
#: Number of columns of a dataset's definition.
DATASET_COLUMNS = 8


class Claimed(NamedTuple):
    """The values of a claim besides its job and datasets."""

    dataid: str
    attempt: int
    token: int
    worker: str
    lease: float
    expires_in: float
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A job and its datasets, with their numbers in the tables."""

    #: The job.
    job: Job
    #: Its number; 0: data made elsewhere.
    id: int
    #: Its datasets, by name.
    datasets: Mapping[str, Dataset]
    #: Their numbers.
    ids: Mapping[str, int]
    #: The proof of the job's key; empty: it has none.
    key_check: str = ""
    #: The numbers of jobs that read its outputs by mappings.
    mapped_readers: frozenset[int] = frozenset()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the datasets with its own data ids, in the order in which all transactions lock them."""
        return sorted(self.ids[name] for name in (*self.job.inputs, *self.job.outputs))

    @property
    def made(self) -> list[int]:
        """The numbers of the datasets that it produces."""
        return sorted(self.ids[name] for name in self.job.makes)

    @property
    def told(self) -> int:
        """The number of the dataset that its history names: the first one that keeps its status."""
        return self.ids[(self.job.outputs or self.job.inputs)[0]]

    def claim(self, row: Claimed, reads: Sequence[Reading] = (), parts: Iterable[Part] = ()) -> Claim:
        """A claim on one of its chunks, with everything needed to reach the data; secrets are still sealed. `reads`:
        its read set of mapped inputs; `parts`: the fan-out parts of its last attempt.
        """

        def ports(names: Iterable[str]) -> dict[str, Port]:
            found = {name: self.datasets[name] for name in names}
            return {
                name: Port(name, row.dataid, each.uri, dict(each.settings), dict(each.secrets), dataids=listed(name))
                for name, each in found.items()
            }

        def listed(name: str) -> tuple[str, ...] | None:
            if name in self.job.fan_out:
                dataids = [each.row.dataid for each in parts if each.listed and each.row.dataset == name]
            elif name in self.job.maps:
                dataids = [each.dataid for each in reads if each.dataset == name and not each.newer]
            else:
                return None
            return tuple(sorted(dataids, key=lambda each: order_key(each, self.datasets[name].order)))

        return Claim(
            self.job.name, row.dataid, row.attempt, row.token, row.worker, row.lease, row.expires_in,
            ports(self.job.inputs), ports(self.job.makes), dict(self.job.environment), row.forced, self.job.stop_exit,
        )  # fmt: skip

    def order_key(self, dataid: str) -> bytes:
        """The sort key of a data id: the first input's order decides."""
        name = (self.job.inputs or self.job.outputs)[0]
        return order_key(dataid, self.datasets[name].order)


def read_dataset(row: Row) -> tuple[int, Dataset]:
    """Columns of a dataset: its number and its definition."""
    number, name, uri, order, settings, secrets, secret_jobs, expect = row[:DATASET_COLUMNS]
    holders = None if secret_jobs is None else tuple(json.loads(secret_jobs))
    dataset = Dataset(str(name), str(uri), Order(order), json.loads(settings), json.loads(secrets), holders,
                      {} if expect is None else json.loads(expect))  # fmt: skip
    return int(number), dataset


def read_map(text: str) -> InputMap:
    """The mapping of an input."""
    return parse_map("", json.loads(text))


def read_job(
    row: Row, inputs: Iterable[str], outputs: Iterable[str], maps: Mapping[str, InputMap], fan_out: Iterable[str]
) -> tuple[int, Job, str]:
    """Columns of a job: its number, its definition, and the check value of its key."""
    (number, name, environment, max_attempts, max_crashes, max_interruptions, delay, on_failure, stop_exit, paused,
     recur, key_check) = row  # fmt: skip
    job = Job(
        str(name), tuple(inputs), tuple(outputs), json.loads(environment), int(max_attempts), int(max_crashes),
        int(max_interruptions), to_seconds(delay) or 0.0, OnFailure(on_failure), StopExit(stop_exit), str(paused),
        to_seconds(recur) or 0.0, maps, tuple(fan_out),
    )  # fmt: skip
    return int(number), job, str(key_check)


def shape_of(tx: Transaction, name: str, *, share: bool) -> Shape:
    """A job by its name. `share`: prevent locks on, and definitions of, its datasets until the transaction ends."""
    row = tx.one(sql.READ_JOB, name=name)
    if row is None:
        raise unknown("job", name, (str(found[1]) for found in tx.all(sql.READ_JOB_NAMES)))
    links = tx.all(sql.SHARE_SHAPE if share else sql.READ_SHAPE, job=row[0])
    shape = build_shape(row, links)
    if any(link[3 + DATASET_COLUMNS] for link in links):
        readers = frozenset(int(job) for (job,) in tx.all(READ_MAPPED_READERS, datasets=shape.made))
        return replace(shape, mapped_readers=readers)
    return shape


def stamp_definitions(tx: Transaction) -> None:
    """A definition was changed: processes that have cached any read them again.

    Written last, because all transactions write the same row. A number could be repeated after a restore; this cannot.
    """
    tx.run(sql.STAMP_DEFINITIONS, stamp=os.urandom(8).hex())


def build_shape(row: Row, links: Sequence[Row]) -> Shape:
    """A job from its columns, and from those of its datasets, each with its kind, position and mapping."""
    found = {str(link[3]): read_dataset(link[2:]) for link in links}
    placed = sorted((int(position), str(kind), str(link_name)) for kind, position, _, link_name, *_ in links)
    maps = {str(link[3]): read_map(link[2 + DATASET_COLUMNS]) for link in links if link[2 + DATASET_COLUMNS]}
    inputs = [each for _, kind, each in placed if kind == Kind.INPUT]
    outputs = [each for _, kind, each in placed if kind == Kind.OUTPUT]
    fan_out = [each for _, kind, each in placed if kind == FAN_OUT]
    number, job, key_check = read_job(
        row, inputs, outputs, {name: maps[name] for name in inputs if name in maps}, fan_out
    )  # fmt: skip
    datasets = {each: dataset for each, (_, dataset) in found.items()}
    return Shape(job, number, datasets, {each: key for each, (key, _) in found.items()}, key_check)


def external_shape(tx: Transaction, dataset: str, *, share: bool) -> Shape:
    """Data made elsewhere, represented as a job that produces one dataset."""
    number, found = dataset_of(tx, dataset, sql.SHARE_DATASET if share else sql.READ_DATASET)
    return Shape(Job(EXTERNAL, (), (dataset,)), 0, {dataset: found}, {dataset: number})


def dataset_of(tx: Transaction, name: str, statement: Statement = sql.READ_DATASET) -> tuple[int, Dataset]:
    """A dataset by its name."""
    row = tx.one(statement, name=name)
    if row is None:
        raise unknown("dataset", name, (str(found[1]) for found in tx.all(sql.READ_DATASETS)))
    return read_dataset(row)


def all_datasets(tx: Transaction) -> dict[int, Dataset]:
    """Every dataset, by number."""
    return dict(read_dataset(row) for row in tx.all(sql.READ_DATASETS))


def all_jobs(tx: Transaction) -> dict[int, Job]:
    """Every job, by number."""
    names = {number: dataset.name for number, dataset in all_datasets(tx).items()}
    links = tx.all(sql.READ_LINKS)

    def of(job_id: int, kind: str) -> list[str]:
        # A dataset whose definition was lost: the doctor reports it, and lists must not fail.
        wanted = (int(dataset) for job, dataset, word, _ in links if job == job_id and word == kind)
        return [names.get(dataset, f"lost dataset {dataset}") for dataset in wanted]

    def maps(job_id: int) -> dict[str, InputMap]:
        return {
            names[int(dataset)]: read_map(text)
            for job, dataset, _, text in links
            if text and job == job_id and int(dataset) in names
        }

    rows = tx.all(sql.READ_JOBS)
    read = (
        read_job(row, of(row[0], Kind.INPUT), of(row[0], Kind.OUTPUT), maps(row[0]), of(row[0], FAN_OUT))
        for row in rows
    )
    return {number: job for number, job, _ in read}


def unknown(what: str, name: str, there: Iterable[str]) -> UnknownName:
    """The error for an unknown name, which suggests the nearest known one."""
    return UnknownName(
        what, name, as_sentence(suggestion(name, sorted(there), MOST_LISTED) or f"no {what} is defined yet")
    )
