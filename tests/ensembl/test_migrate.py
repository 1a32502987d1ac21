"""headgate migrate: every kind of database that it may find, and what it leaves there."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.sql.ddl import SchemaGenerator

import headgate
from headgate.ensembl import LockException, ResourceLocker
from headgate.migrating import migrate
from headgate.stores.sql import schema_versions
from headgate.stores.sql.migrations import ensembl
from headgate.stores.sql.migrations import upgrade as runner
from headgate.stores.sql.schema import metadata
from tests.ensembl.original import Row, build, content, engine, originals, utc
from tests.faults.conftest import processes, shared_zygote
from tests.faults.processes import Zygote

__all__ = ["processes", "shared_zygote"]

NEWEST = schema_versions.versions()[-1]

ROWS = (
    Row(3, "loader", "uri://a", "read", utc(2020, 1, 1)),
    Row(4, "copier", "uri://a", "read", utc(2020, 1, 2)),
    Row(9, "loader", "uri://b", "write", utc(2020, 1, 3, 4, 5, 6)),
)


def execute(url: str, *statements: str) -> None:
    with engine(url).begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def held(url: str) -> list[tuple[int, str, str, str, datetime]]:
    with ResourceLocker(url) as locker:
        return [
            (lock.resource_lock_id, lock.client.name, lock.resource.uri, lock.lock_type, lock.created)
            for lock in locker.get_locks()
        ]


def expected(*rows: Row) -> list[tuple[int, str, str, str, datetime]]:
    return [(row.id, row.client, row.resource, row.lock_type, row.created) for row in rows]


# ------------------------------------------------------------------ databases without the original's tables


def test_an_empty_database_gets_the_schema(sql_url: str) -> None:
    done = migrate(sql_url)
    assert done.changed
    assert done.lines[1:] == [f"made schema {schema_versions.versions()[-1]} in an empty database"]
    with headgate.connect(sql_url) as gate:
        gate.locks.acquire("loader", "uri://a", "read")


def test_a_current_store_has_nothing_to_do(sql_url: str) -> None:
    headgate.connect(sql_url).close()
    before = content(sql_url)
    done = migrate(sql_url)
    assert not done.changed
    assert "nothing to do" in done.lines[0]
    assert content(sql_url) == before


def test_a_newer_store_is_refused(sql_url: str) -> None:
    headgate.connect(sql_url).close()
    execute(sql_url, "update hg_schema set version_num = '9999'")
    before = content(sql_url)
    with pytest.raises(headgate.SchemaMismatch, match="newer Headgate"):
        migrate(sql_url)
    assert content(sql_url) == before


def test_other_tables_are_refused_without_beside(sql_url: str) -> None:
    execute(sql_url, "create table orders (number integer)", "insert into orders values (7)")
    before = content(sql_url)
    for act in (lambda: migrate(sql_url), lambda: migrate(sql_url, dry_run=True), lambda: headgate.connect(sql_url)):
        with pytest.raises(headgate.ForeignStore, match=r"orders.*migrate --beside"):
            act()
        assert content(sql_url) == before
    assert migrate(sql_url, beside=True, dry_run=True).lines[1:] == [
        f"would make schema {NEWEST} next to the existing tables (orders)"
    ]
    assert content(sql_url) == before
    assert migrate(sql_url, beside=True).changed
    assert content(sql_url)["orders"] == [(7,)]
    with headgate.connect(sql_url) as gate:
        gate.locks.acquire("loader", "uri://a", "read")


def test_tables_of_the_same_names_but_other_columns_are_not_the_originals(sql_url: str) -> None:
    execute(sql_url, *(f"create table {name} (number integer)" for name in ("client", "resource", "resource_lock")))
    with pytest.raises(headgate.ForeignStore, match="tables of another program"):
        migrate(sql_url)


def test_zookeeper_has_nothing_to_migrate() -> None:
    done = migrate("zookeeper://127.0.0.1:1/root", dry_run=True)
    assert not done.changed
    assert "nothing to migrate" in done.lines[0]


def test_a_url_of_no_known_kind_is_refused() -> None:
    with pytest.raises(headgate.BadValue, match="is not a supported URL"):
        migrate("ldap://host")


# ------------------------------------------------------------------ the original's database


def test_the_original_is_recognised_and_not_opened(sql_url: str) -> None:
    build(sql_url, ROWS)
    before = content(sql_url)
    with pytest.raises(headgate.ForeignStore, match=r"Ensembl's resource locks.*headgate migrate"):
        ResourceLocker(sql_url)
    assert content(sql_url) == before


def test_the_original_is_taken_over(sql_url: str) -> None:
    build(sql_url, ROWS, clients=["idle"], resources=["uri://free"])
    before = originals(sql_url)
    done = migrate(sql_url)
    assert done.changed
    assert done.lines[2] == "imported from Ensembl's tables: clients: 3, resources: 3, locks: 3"
    assert "do not see each other's locks" in done.lines[-1]
    assert originals(sql_url) == before
    assert held(sql_url) == expected(*ROWS)
    with ResourceLocker(sql_url) as locker:
        assert [client.name for client in locker.get_clients()] == ["copier", "idle", "loader"]
        assert [resource.uri for resource in locker.get_resources()] == ["uri://a", "uri://b", "uri://free"]


def test_locks_taken_over_are_held(sql_url: str) -> None:
    build(sql_url, ROWS)
    migrate(sql_url)
    with ResourceLocker(sql_url) as locker:
        with pytest.raises(LockException):
            locker.lock("other", "uri://b", "read")
        with pytest.raises(LockException):
            locker.lock("other", "uri://a", "write")
        locker.lock("other", "uri://a", "read")
        locker.unlock(9)
        newer = locker.lock("other", "uri://b", "write")
        assert newer.token == 2
        with pytest.raises(ValueError, match="no lock '9'"):
            locker.unlock(9)


def test_each_lock_taken_over_has_its_token_and_its_history(sql_url: str) -> None:
    build(sql_url, ROWS)
    migrate(sql_url)
    with headgate.connect(sql_url) as gate:
        locks = sorted(gate.locks.list(), key=lambda lock: lock.since)
        assert [(lock.resource, lock.token, lock.lease) for lock in locks] == [
            ("uri://a", 1, None),
            ("uri://a", 2, None),
            ("uri://b", 1, None),
        ]
        assert locks[2].since == datetime(2020, 1, 3, 4, 5, 6, tzinfo=UTC)
        told = {entry.lock_id: entry for entry in gate.history()}
        assert set(told) == {lock.id for lock in locks}
        for lock in locks:
            entry = told[lock.id]
            assert (entry.event, entry.reason) == ("grant", "imported from resource_lock")
            assert (entry.client, entry.token, entry.after) == (lock.client, lock.token, lock.mode)
        for lock in locks:
            gate.locks.release(lock)
        assert gate.status()["lockCount"] == 0


def test_running_it_twice_does_nothing(sql_url: str) -> None:
    build(sql_url, ROWS)
    migrate(sql_url)
    before = content(sql_url)
    again = migrate(sql_url)
    assert not again.changed
    assert "nothing to do" in again.lines[0]
    assert "were imported" in again.lines[1]
    assert content(sql_url) == before


def test_a_lock_released_after_a_takeover_does_not_come_back(sql_url: str) -> None:
    build(sql_url, ROWS)
    migrate(sql_url)
    with ResourceLocker(sql_url) as locker:
        locker.unlock(9)
    migrate(sql_url)
    assert held(sql_url) == expected(*ROWS[:2])


def test_a_program_that_still_uses_the_original_is_reported(sql_url: str) -> None:
    build(sql_url, ROWS)
    migrate(sql_url)
    execute(sql_url, "insert into resource_lock values (10, 'read', '2021-01-01 00:00:00', 1, 1)")
    assert migrate(sql_url).lines[2].startswith("Ensembl's table has 1 newer lock,")


def test_a_dry_run_prints_the_same_and_writes_nothing(sql_url: str) -> None:
    build(sql_url, [*ROWS, Row(11, "b/c", "uri://b", "read")])
    before = content(sql_url)
    would = migrate(sql_url, dry_run=True)
    assert not would.changed
    assert content(sql_url) == before
    did = migrate(sql_url)
    assert [line.replace("would make", "made").replace("would import", "imported") for line in would.lines] == did.lines


def test_a_dry_run_changes_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'original.db'}"
    assert migrate(url, dry_run=True).lines[1:] == [f"would make schema {NEWEST} in an empty database"]
    assert list(tmp_path.iterdir()) == []
    build(url, ROWS)
    execute(url, "pragma journal_mode = wal")
    before = (tmp_path / "original.db").read_bytes()
    migrate(url, dry_run=True)
    migrate(f"{url}?journal_mode=truncate", dry_run=True)
    assert (tmp_path / "original.db").read_bytes() == before


def test_an_original_without_rows_is_taken_over(sql_url: str) -> None:
    build(sql_url)
    assert migrate(sql_url).lines[2] == "imported from Ensembl's tables: clients: 0, resources: 0, locks: 0"
    assert held(sql_url) == []


def test_a_corrupted_original_keeps_what_agrees_and_reports_the_rest(sql_url: str) -> None:
    late = Row(12, "copier", "uri://b", "write", utc(2020, 2, 1))
    slash = Row(13, "team/loader", "uri://c", "write", utc(2020, 2, 2))
    build(sql_url, [*ROWS, late, slash])
    lines = migrate(sql_url).lines
    assert any(line.startswith("skipped resource_lock 12 (write on uri://b by copier") for line in lines)
    assert "client 'team/loader' is named 'team_loader' here, because its name is not valid here" in lines
    assert held(sql_url) == [*expected(*ROWS), (13, "team_loader", "uri://c", "write", slash.created)]


def test_the_original_appearing_in_a_store_is_taken_over_beside_what_is_held(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        gate.locks.acquire("mine", "uri://b", "shared")
        gate.locks.acquire("mine", "uri://a", "shared")
    build(sql_url, ROWS)
    headgate.connect(sql_url).close()
    would = migrate(sql_url, dry_run=True)
    done = migrate(sql_url)
    assert would.lines[1:] == [line.replace("imported from E", "would import from E") for line in done.lines[1:]]
    assert any("mine holds uri://b shared" in line for line in done.lines)
    with headgate.connect(sql_url) as gate:
        assert sorted((lock.client, lock.resource, lock.token) for lock in gate.locks.list()) == [
            ("copier", "uri://a", 3),
            ("loader", "uri://a", 2),
            ("mine", "uri://a", 1),
            ("mine", "uri://b", 1),
        ]
        for lock in gate.locks.list():
            gate.locks.release(lock)
        gate.locks.acquire("mine", "uri://a", "exclusive")


def test_many_rows_are_taken_over(sql_url: str) -> None:
    rows = [Row(n, f"client {n % 7}", f"uri://{n}", "write") for n in range(1, 501)]
    build(sql_url, rows)
    assert (
        migrate(sql_url).lines[2].startswith("imported from Ensembl's tables: clients: 7, resources: 500, locks: 500")
    )
    assert len(held(sql_url)) == 500


# ------------------------------------------------------------------ interrupted


class Killed(BaseException):
    """Represents the end of the process: none of our code catches it."""


def fail_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, calls: int = 1) -> Callable[[], None]:
    """Make the function raise at its n-th call; returns a function that restores it."""
    real, counted = getattr(owner, name), iter(range(1, 10**6))

    def step(*args: Any, **keywords: Any) -> Any:
        if next(counted) == calls:
            raise Killed
        return real(*args, **keywords)

    monkeypatch.setattr(owner, name, step)
    return lambda: monkeypatch.setattr(owner, name, real)


#: Before the first table's index, before the last one, before the routines, the tag, the copy, and within it.
STEPS = {
    "first index": (SchemaGenerator, "visit_index", 1),
    "last table": (SchemaGenerator, "visit_table", len(metadata.tables)),
    "tag": (runner, "_name_store", 1),
    "copy": (ensembl, "take_over", 1),
    "second lock": (ensembl, "_write_lock", 2),
    "mark": (ensembl, "moment", 1),
}


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_takeover_is_completed_by_the_next(
    sql_url: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(sql_url, ROWS)
    before = originals(sql_url)
    mend = fail_at(monkeypatch, *STEPS[step])
    with pytest.raises(Killed):
        migrate(sql_url)
    mend()
    with pytest.raises(headgate.ForeignStore, match="headgate migrate"):
        ResourceLocker(sql_url)
    would = migrate(sql_url, dry_run=True)
    assert any("would import from Ensembl's tables: clients: 2, resources: 2, locks: 3" in line for line in would.lines)
    assert migrate(sql_url).changed
    assert held(sql_url) == expected(*ROWS)
    assert originals(sql_url) == before
    with headgate.connect(sql_url) as gate:
        assert len(gate.history()) == len(ROWS)
    assert not migrate(sql_url).changed


@pytest.mark.parametrize("step", ["first index", "last table", "tag"])
@pytest.mark.parametrize("act", ["open", "migrate"])
def test_an_interrupted_first_opening_is_completed_by_the_next(
    sql_url: str, step: str, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = fail_at(monkeypatch, *STEPS[step])
    with pytest.raises(Killed):
        headgate.connect(sql_url)
    mend()
    if act == "migrate":
        assert migrate(sql_url).changed
    with headgate.connect(sql_url) as gate:
        lock = gate.locks.acquire("loader", "uri://a", "write")
        gate.locks.release(lock)


def test_a_store_without_its_version_is_not_created_again(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        gate.locks.acquire("loader", "uri://a", "write")
    execute(sql_url, "delete from hg_schema")
    before = content(sql_url)
    with pytest.raises(headgate.SchemaMismatch, match="its schema version is missing"):
        migrate(sql_url)
    assert content(sql_url) == before


def test_migrations_at_the_same_moment_take_over_once(sql_url: str, processes: Zygote) -> None:
    build(sql_url, ROWS)
    running = [processes.spawn("tests.faults.scripts:take_over", url=sql_url) for _ in range(4)]
    for each in running:
        each.expect("ready")
    for each in running:
        each.channel.send("go")
    told = [each.expect("migrated")["lines"] for each in running]
    assert sum("imported from" in " ".join(lines) for lines in told) == 1
    assert held(sql_url) == expected(*ROWS)


def test_a_null_where_a_name_should_be_is_reported_and_not_taken_for_a_name(sql_url: str) -> None:
    """Ensembl's own tables forbid it; tables that were created or changed by hand may allow it."""
    number = "integer primary key"
    execute(
        sql_url,
        f"create table client (client_id {number}, name varchar(64))",
        f"create table resource (resource_id {number}, uri varchar(512))",
        f"create table resource_lock (resource_lock_id {number}, lock_type varchar(5), created timestamp null,"
        " client_id integer, resource_id integer)",
        "insert into client values (1, 'loader'), (2, null)",
        "insert into resource values (1, 'uri://a'), (2, null), (3, 'uri://c')",
        "insert into resource_lock values (7, 'read', '2020-01-01 00:00:00', 1, 1)",
        "insert into resource_lock values (8, 'read', '2020-01-02 00:00:00', 2, 1)",
        "insert into resource_lock values (9, 'write', '2020-01-03 00:00:00', 1, 2)",
        "insert into resource_lock values (10, null, null, 1, 3)",
    )
    before = originals(sql_url)
    told = migrate(sql_url, dry_run=True).lines
    done = migrate(sql_url)
    for line in (
        "skipped client 2: its name is NULL",
        "skipped resource 2: its uri is NULL",
        "skipped resource_lock 9 (write on no resource by loader since 2020-01-03 00:00:00 UTC): its resource does not",
        "skipped resource_lock 10 (no type on uri://c by loader): its type is neither read nor write",
        "resource_lock 8 (read on uri://a by unknown since 2020-01-02 00:00:00 UTC) has no existing client;",
    ):
        assert any(line in each for each in told), line
        assert any(line in each for each in done.lines), line
    with headgate.connect(sql_url) as gate:
        assert [name for name, _since in gate.locks.clients()] == ["loader", "unknown"]
        assert gate.locks.resources() == ["uri://a", "uri://c"]
        held_now = {(lock.client, lock.resource) for lock in gate.locks.list()}
        assert held_now == {("loader", "uri://a"), ("unknown", "uri://a")}
    assert originals(sql_url) == before
