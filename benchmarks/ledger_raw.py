"""The maximum rate of the bare driver: one claim that skips locked rows, one update, a trip and a commit each.

Each baseline's query plan is asserted: a slow plan with a scan would make our ratio too good.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from benchmarks.harness import Step

COLUMNS = "id varchar(255) primary key, place bigint not null, status varchar(10) not null, worker varchar(255)"
HEAD = "select id from raw_chunk where status = 'waiting' order by place limit 1"


def _plan(cursor: Any, explain: str, expected: str) -> None:
    cursor.execute(explain)
    plan = str(cursor.fetchall())
    if expected not in plan or "Seq Scan" in plan or "B-TREE" in plan:
        raise SystemExit(f"the raw baseline does not use its index: {plan}")


def _fill(cursor: Any, count: int, mark: str) -> None:
    insert = f"insert into raw_chunk values ({mark}, {mark}, 'waiting', '')"
    cursor.execute("begin")
    cursor.executemany(insert, [(f"chunk-{number:08}", number) for number in range(count)])
    cursor.execute("commit")


def sqlite_pair(path: Path, mode: str, count: int) -> Step:
    """SQLite locks the file, not rows: there are no locked rows to skip."""
    cursor = sqlite3.connect(path, isolation_level=None).cursor()
    cursor.execute(f"pragma journal_mode = {mode}")
    cursor.execute("pragma synchronous = full")
    cursor.execute(f"create table raw_chunk ({COLUMNS}) without rowid")
    cursor.execute("create index raw_next on raw_chunk (place) where status = 'waiting'")
    _fill(cursor, count, "?")
    _plan(cursor, f"explain query plan {HEAD}", "USING INDEX raw_next")
    claim = f"update raw_chunk set status = 'running', worker = ? where id = ({HEAD}) returning id"
    done = "update raw_chunk set status = 'done' where id = ?"
    _plan(cursor, "explain query plan " + done.replace("?", "'x'"), "SEARCH")

    def step() -> None:
        cursor.execute(claim, ("bench",))
        (found,) = cursor.fetchall()
        cursor.execute(done, found)

    return step


def postgresql_fill(url: str, count: int) -> str:
    """The table, with that many waiting."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute(f"create table raw_chunk ({COLUMNS})")
        cursor.execute("create index raw_next on raw_chunk (place) where status = 'waiting'")
        cursor.execute(
            "insert into raw_chunk select 'chunk-' || n, n, 'waiting', '' from generate_series(1, %s) n", (count,)
        )
        cursor.execute("vacuum analyze raw_chunk")
    return url


def postgresql_pair(url: str) -> Step:
    """One statement that claims, one that reports."""
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.prepare_threshold = 2
    cursor = connection.cursor()
    head = f"{HEAD} for update skip locked"
    _plan(cursor, f"explain {head}", "Index Scan using raw_next")
    claim = f"update raw_chunk set status = 'running', worker = %s where id = ({head}) returning id"
    done = "update raw_chunk set status = 'done' where id = %s"
    _plan(cursor, "explain " + done.replace("%s", "'x'"), "Index Scan using raw_chunk_pkey")

    def step() -> None:
        cursor.execute(claim, ("bench",))
        (found,) = cursor.fetchall()
        cursor.execute(done, found)

    return step


RAW_CLAIM = f"""
create procedure raw_claim(in a_worker varchar(255))
begin
  declare v_id varchar(255);
  start transaction;
  {HEAD} into v_id for update skip locked;
  update raw_chunk set status = 'running', worker = a_worker where id = v_id;
  commit;
  select v_id;
end"""


def mariadb_pair(url: str, count: int) -> Step:
    """An update returns nothing there: a routine makes the claim one trip."""
    from headgate.stores.sql.dialects.mysql.dialect import Mysql

    cursor = Mysql(url).connect().cursor()
    cursor.execute(f"create table raw_chunk ({COLUMNS}, index raw_next (status, place)) engine=InnoDB")
    cursor.execute(RAW_CLAIM)
    _fill(cursor, count, "%s")
    _plan(cursor, f"explain {HEAD} for update", "raw_next")
    _plan(cursor, "explain update raw_chunk set status = 'done' where id = 'x'", "PRIMARY")

    def step() -> None:
        cursor.execute("call raw_claim('bench')")
        (found,) = cursor.fetchall()
        cursor.execute("update raw_chunk set status = 'done' where id = %s", found)

    return step
