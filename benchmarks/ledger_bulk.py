"""Stores with many chunks, made by the database itself: a pipeline of jobs that have done all or part of their work."""

from __future__ import annotations

from functools import partial

import headgate
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.dialects import dialect_for

JOBS = ("clean", "join", "report")
DATASETS = ("raw", "tidy", "joined", "told")
#: Numbers from :first up to :last, by database.
NUMBERS = {
    "sqlite": """with recursive r(n) as (select :first union all select n + 1 from r where n < :last)""",
    "postgresql": "with r(n) as (select generate_series(:first::int, :last::int))",
    "mysql": "with r as (select seq as n from seq_1_to_10000000 where seq between :first and :last)",
}
#: An id whose natural key the database can write too: its seven digits never begin with a zero.
DATAID = {
    "sqlite": "cast(n + 1000000 as text)", "postgresql": "(n + 1000000)::text", "mysql": "cast(n + 1000000 as char)",
}  # fmt: skip
ORDER_KEY = {
    "sqlite": "cast(char(48, length({0})) || {0} as blob)",
    "postgresql": "convert_to(chr(48) || chr(length({0})) || {0}, 'UTF8')",
    "mysql": "concat(char(48, length({0})), {0})",
}
BATCH = 500_000


def define(url: str, jobs: int = len(JOBS)) -> None:
    """The pipeline: raw is read by clean, which makes tidy, and so on."""
    with headgate.connect(url) as gate:
        for name in DATASETS[: jobs + 1]:
            gate.ledger.define_dataset(name, uri=f"s3://bucket/{name}")
        for place in range(jobs):
            gate.ledger.define_job(JOBS[place], inputs=[DATASETS[place]], outputs=[DATASETS[place + 1]])


def fill(url: str, first: int, last: int, *, jobs: int) -> None:
    """Chunks of raw with these numbers are READY, and that many jobs have done them; the next may claim them."""
    dialect = dialect_for(url)
    database = Database(dialect)
    rows = [(1, 0, "OUTPUT", "READY")]
    for place in range(1, jobs + 1):
        rows += [(place, place, "INPUT", "DONE"), (place + 1, place, "OUTPUT", "READY")]
    for start in range(first, last + 1, BATCH):
        span = {"first": start, "last": min(start + BATCH - 1, last)}
        for dataset, job, kind, status in rows:
            values = {"dataset": dataset, "job": job, "kind": kind, "status": status}
            database.write(partial(_run, _chunks(dialect.kind), {**values, **span}))
        if jobs < _jobs(database):
            database.write(partial(_run, _candidates(dialect.kind), {"job": jobs + 1, **span}))
    dialect.learn_sizes(database)
    database.close()


def _run(statement: Statement, params: dict[str, object], tx: Transaction) -> None:
    tx.run(statement, **params)


def _jobs(database: Database) -> int:
    count = database.read(lambda tx: tx.one(Statement("How many jobs.", "select count(*) from hg_job")))
    return int(count[0])


def _chunks(kind: str) -> Statement:
    dataid = DATAID[kind]
    return Statement(
        "Many chunks.",
        _with(
            kind,
            """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures,
                                     crashes, token, worker, request_id, lease, lease_until, forced, retry_after, since,
                                     started, message)""",
            f"""select :dataset, {dataid}, :job, :kind, {ORDER_KEY[kind].format(dataid)}, :status, '', 1, 0, 0, 0, '',
                       '', null, null, {{no}}, null, 1, null, '' from r""".replace(
                "{no}", "false" if kind == "postgresql" else "0"
            ),
        ),
    )


def _candidates(kind: str) -> Statement:
    dataid = DATAID[kind]
    return Statement(
        "Many that may be claimed.",
        _with(
            kind,
            "insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)",
            f"select :job, {dataid}, {ORDER_KEY[kind].format(dataid)}, 1, 0, 0 from r",
        ),
    )


def _with(kind: str, insert: str, select: str) -> str:
    """MariaDB wants the numbers between the two."""
    parts = (insert, NUMBERS[kind], select) if kind == "mysql" else (NUMBERS[kind], insert, select)
    return " ".join(parts)
