"""Building blocks of the ledger's cases: a small pipeline, chunks in every state, and a dump of everything stored."""

from dataclasses import replace
from typing import Any

from headgate import Claim, Gate
from headgate.core.history import Entry
from headgate.core.ledger.model import Change, Row
from headgate.service.ledger.use_cases import Ledger
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.over_http import behind
from tests.contract.steps import SHORT
from tests.waiting import until

WHY = "the test wants it so"
#: Variables by which a program or a shell runs other code, or finds other files; and invalid names.
RUNS_CODE = (
    "PATH", "BASH_FUNC_ls%%", "BASH_ENV", "ENV", "IFS", "PS4", "SHELLOPTS", "LD_PRELOAD", "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "R_PROFILE", "EDITOR", "PAGER", "HOME", "TMPDIR",
    "HEADGATE_URL", "HEADGATE_DATAID", "path", "param_x", "PARAM_x", "PARAM_A=B", "PARAM_A B", "1A", "A\u0130",
)  # fmt: skip
EXPIRE = Statement(
    "The lease of a claim has run out.",
    "update hg_chunk set lease_until = {now} - :ago where dataid = :dataid and lease_until is not null",
)
HURRY = Statement("No delay any more.", "update hg_candidate set not_before = 0")
HURRY_ROWS = Statement(
    "No delay any more, in the rows.", "update hg_chunk set retry_after = null where retry_after is not null"
)


def database(gate: Gate) -> Database:
    """The database behind the gate."""
    found: Any = behind(gate).store
    return found._database  # type: ignore[no-any-return]


def one_job(gate: Gate, **policy: Any) -> Ledger:
    """The pipeline of the scenarios in short: raw is read by clean, which makes tidy, which is read by report."""
    ledger = gate.ledger
    for name in ("raw", "tidy", "rep"):
        ledger.define_dataset(name, uri=f"file:///{name}")
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], **policy)
    ledger.define_job("report", inputs=["tidy"], outputs=["rep"], **policy)
    return ledger


def expire(gate: Gate, dataid: str, seconds: float = 0.000_001) -> None:
    """Make the worker of a chunk appear to have died some time ago."""
    database(gate).write(lambda tx: tx.run(EXPIRE, dataid=dataid, ago=round(seconds * 1_000_000)))


def clear(gate: Gate, *others: str) -> None:
    """Remove all chunks, and what is in other tables about them. The history stays."""
    for table in ("hg_chunk", "hg_candidate", "hg_recurrence", "hg_arrival", "hg_read", "hg_part", *others):
        database(gate).write(lambda tx: tx.run(Statement("Empty it.", f"delete from {table}")))  # noqa: B023, S608


def hurry(gate: Gate) -> None:
    """All delays have passed."""
    for statement in (HURRY, HURRY_ROWS):
        database(gate).write(lambda tx: tx.run(statement))  # noqa: B023 - run at once


def status_of(ledger: Ledger, dataset: str, dataid: str, job: str, kind: str = "OUTPUT") -> str:
    """A row's status; absent when there is none."""
    rows = ledger.status(dataset, job, dataid, kind=kind)
    return rows[0].status if rows else "absent"


def next_id(ledger: Ledger, job: str) -> str | None:
    """The result of find_next, in short."""
    claim = ledger.find_next(job)
    return None if claim is None else claim.dataid


def everything(gate: Gate) -> tuple[list[Row], list[Entry], list[Any]]:
    """Everything that the ledger stores: rows, history, and claimable chunks."""
    ledger = gate.ledger
    rows = [replace(row, expires_in=None, retry_in=None) for row in ledger.status()]
    told = [entry for entry in gate.history(limit=100_000) if entry.noun in ("chunk", "job")]
    look = Statement("All of it.", "select job_id, dataid, place, missing from hg_candidate order by job_id, dataid")
    return rows, told, database(gate).read(lambda tx: tx.all(look))


def told(gate: Gate, job: str, dataid: str) -> list[tuple[str, str, str]]:
    """The history of a job's chunk, oldest first: event, before, after."""
    found = gate.history(job=job, dataid=dataid, limit=10_000)
    return [(entry.event, entry.before, entry.after) for entry in reversed(found)]


def claimed(ledger: Ledger, job: str) -> Claim:
    """The next chunk, which must exist."""
    claim = ledger.find_next(job)
    assert claim
    return claim


def summary(changes: Any) -> list[tuple[str, str, str, str]]:
    """Changes in short."""
    return [(each.job, each.dataset, each.before, each.after) for each in changes if isinstance(each, Change)]


def let_lease_end(ledger: Ledger, job: str, dataid: str) -> None:
    """A claim with a short lease expires by the store's clock."""
    until(lambda: any(row.expired for row in ledger.status(job=job, dataid=dataid)), f"{SHORT} s to pass")
