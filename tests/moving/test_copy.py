"""A whole store is copied from one kind of database to another: nothing is lost, and no token or id is reused."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import BadValue, ClaimRefused, ForeignStore, HalfMoved, LockRefused, StoreInUse
from headgate.moving import copying
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.facts import read_facts
from headgate.stores.sql.moving.contents import OF_THE_PLACE, moves
from headgate.stores.sql.moving.whole import NOT_ROWS, TABLES, open_source
from headgate.stores.sql.opening import open_database
from headgate.stores.sql.schema import metadata
from tests.conftest import fresh_store
from tests.contract.queue_steps import new_batch
from tests.contract.steps import LONG
from tests.moving.furniture import SECRET, furnish, opened, seen, take_work
from tests.shared_servers import Servers

PAIRS = [("sqlite", "postgresql"), ("postgresql", "mariadb"), ("mariadb", "sqlite")]


@pytest.fixture
def place(servers: Servers, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A new, empty store of a kind, as often as requested."""
    made: list[Iterator[str]] = []

    def make(kind: str) -> str:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(fresh_store(kind, servers, folder))
        return next(made[-1])

    yield make
    for each in made:
        next(each, None)


def copy(source: str, target: str, *, force: bool = False) -> Any:
    with copying(source, target, force=force) as work:
        told: list[int] = []
        moved = work.run(told.append)
        assert told == sorted(told)
        assert told[-1:] in ([], [work.total()])
    return moved


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda kind: kind)
def test_a_copy_contains_everything_and_work_continues_there(
    old: str, new: str, place: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = place(old), place(new)
    with opened(source, tmp_path) as gate:
        held = furnish(gate)
        before = seen(gate)
    with pytest.raises(StoreInUse, match="running claim"):
        copy(source, target)
    moved = copy(source, target, force=True)
    assert not [table for table, (rows, _digest) in moved.tables.items() if not rows], "a table that was never filled"
    with opened(target, tmp_path) as gate:
        assert seen(gate) == before
        goes_on(gate, held)
    with opened(source, tmp_path) as gate:
        assert seen(gate) == before


def goes_on(gate: headgate.Gate, held: dict[str, Any]) -> None:
    """Holders in the old store continue with the new one; new tokens are greater than all old ones."""
    tokens = [chunk.token for chunk in gate.ledger.status()]
    newest = gate.ledger.claim("clean", "8", key=held["key"])
    assert newest.token > max(tokens)
    assert newest.inputs["raw"].secrets == {"password": SECRET}
    gate.ledger.success(held["claim"])
    with pytest.raises(ClaimRefused):
        gate.ledger.claim("clean", "5", key=held["key"])
    with pytest.raises(LockRefused):
        gate.locks.acquire("ben", held["lock"].resource, "shared")
    gate.locks.check(held["lock"])
    gate.locks.release(held["lock"])
    assert gate.locks.acquire("ben", held["lock"].resource, "exclusive").token > held["lock"].token
    assert gate.locks.acquire("ben", "never seen", "exclusive").token > 1
    assert gate.tokens.prove(held["api_token"]).name == "ann"
    ids = [batch.id for batch in gate.queue.batches()]
    assert new_batch(gate.queue).id > max(ids)
    gate.ledger.define_job("more", inputs=["tidy"])


def test_every_table_moves_or_is_named_with_the_reason_why_not() -> None:
    assert {table.name for table in TABLES} | set(NOT_ROWS) == set(metadata.tables)
    assert not {table.name for table in TABLES} & set(NOT_ROWS)
    assert all(NOT_ROWS.values())


def test_every_column_with_a_lease_time_is_known() -> None:
    for table in metadata.tables.values():
        for column in table.columns:
            assert ("lease clock" in (column.comment or "")) <= bool(column.info), column


def test_a_lease_keeps_its_remaining_time(place: Callable[[str], str], tmp_path: Path) -> None:
    source, target = place("sqlite"), place("sqlite")
    with opened(source, tmp_path) as gate:
        taken = take_work(gate)
    copy(source, target, force=True)
    with opened(target, tmp_path) as gate:
        gate.locks.renew(taken["lock"])
        gate.ledger.heartbeat(taken["claim"])
        gate.queue.renew(taken["item"])
        with pytest.raises(LockRefused):
            gate.locks.acquire("cyd", "leased:1", "shared")


def test_a_store_is_copied_at_one_moment_while_others_work(
    sql_url: str, place: Callable[[str], str], tmp_path: Path
) -> None:
    with opened(sql_url, tmp_path) as gate:
        gate.locks.acquire("ann", "before", "exclusive")
        with open_source(sql_url, in_use=True) as source:
            gate.locks.acquire("ann", "meanwhile", "exclusive")
            rows = {table: [row for part in source.rows(table) for row in part] for table in source.contents.tables}
        assert source.contents.counts["hg_lock"] == len(rows["hg_lock"]) == len(rows["hg_history"]) == 1


def test_only_an_empty_target_is_written_into(place: Callable[[str], str], tmp_path: Path) -> None:
    source, target = place("sqlite"), place("sqlite")
    for url in (source, target):
        with opened(url, tmp_path) as gate:
            gate.locks.acquire("ann", url, "exclusive")
    with pytest.raises(BadValue, match="is not empty"):
        copy(source, target)
    with pytest.raises(BadValue, match="is the source itself"):
        copy(source, source)
    with opened(target, tmp_path) as gate:
        assert [lock.resource for lock in gate.locks.list()] == [target]


def test_a_source_that_is_not_a_store_is_neither_copied_nor_created(tmp_path: Path) -> None:
    with pytest.raises(ForeignStore, match="is not a store of Headgate"):
        copy(f"sqlite:///{tmp_path / 'none'}", f"sqlite:///{tmp_path / 'new'}")
    assert not (tmp_path / "none").exists()


def test_a_row_that_another_process_writes_is_found(place: Callable[[str], str], tmp_path: Path) -> None:
    source, target = place("sqlite"), place("sqlite")
    with opened(source, tmp_path) as gate:
        gate.locks.acquire("ann", "mine", "exclusive")
    stranger = headgate.connect(target)
    with copying(source, target) as work, pytest.raises(HalfMoved, match="another process wrote to it"):
        work.run(lambda _done: stranger.locks.register_resource("another"))
    stranger.close()
    with pytest.raises(HalfMoved, match="epeat the command"):
        headgate.connect(target)
    copy(source, target)
    with opened(target, tmp_path) as gate:
        assert [lock.resource for lock in gate.locks.list()] == ["mine"]


def test_a_second_copy_into_the_same_place_ends_the_first(place: Callable[[str], str], tmp_path: Path) -> None:
    source, target = place("sqlite"), place("sqlite")
    with opened(source, tmp_path) as gate:
        gate.locks.acquire("ann", "mine", "exclusive")
    second = iter([lambda: copy(source, target)])
    with copying(source, target) as work, pytest.raises((HalfMoved, BadValue)):
        work.run(lambda _done: next(second, lambda: None)())
    with opened(target, tmp_path) as gate:
        assert [lock.resource for lock in gate.locks.list()] == ["mine"]


def test_a_partial_copy_of_another_store_is_not_overwritten(
    place: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, target = place("sqlite"), place("sqlite"), place("sqlite")
    for url in (one, two):
        headgate.connect(url).close()
    with monkeypatch.context() as patched, copying(one, target) as work:
        patched.setattr(Database, "still", None)
        with pytest.raises(TypeError):
            work.run(lambda _: None)
    with pytest.raises(BadValue, match="unfinished copy of another store"):
        copy(two, target)
    copy(one, target)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
@pytest.mark.parametrize("when", ["before the snapshot", "after the snapshot"])
def test_work_that_begins_while_a_store_is_copied_is_found(
    when: str, kind: str, place: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place(kind), place("sqlite")
    with opened(source, tmp_path) as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.define_job("check", inputs=["raw"])
        gate.ledger.publish("raw", "1")
        claims: list[Any] = []

        def claim_once() -> None:
            if not claims:
                claims.append(gate.ledger.find_next("check", worker="w1", lease=LONG))

        with monkeypatch.context() as patched:
            if when == "before the snapshot":
                real = Database.still

                def claimed_before(self: Database) -> Any:
                    claim_once()
                    return real(self)

                patched.setattr(Database, "still", claimed_before)
            with pytest.raises(StoreInUse, match="1 running claim"), copying(source, target) as work:
                work.run(lambda _done: claim_once())
        if when == "before the snapshot":
            assert not Path(target.removeprefix("sqlite:///")).exists()
        else:
            with pytest.raises(HalfMoved):
                headgate.connect(target)
        gate.ledger.success(claims[0])
    copy(source, target)
    with opened(target, tmp_path) as gate:
        assert [chunk.status for chunk in gate.ledger.status(job="check")] == ["DONE"]


def test_unleased_changes_during_a_copy_are_detected_too(place: Callable[[str], str], tmp_path: Path) -> None:
    source, target = place("sqlite"), place("sqlite")
    with opened(source, tmp_path) as gate:
        gate.locks.acquire("ann", "mine", "exclusive")
        with pytest.raises(StoreInUse, match="hg_history changed during the copy"), copying(source, target) as work:
            work.run(lambda _done: gate.locks.release(gate.locks.acquire("ben", "other", "exclusive")))
    copy(source, target)


def test_every_fact_about_a_store_is_listed_as_moved_or_not(place: Callable[[str], str], tmp_path: Path) -> None:
    source, target = place("sqlite"), place("sqlite")
    with opened(source, tmp_path) as gate:
        furnish(gate)
    copy(source, target, force=True)
    for url in (source, target):
        database = open_database(url)
        names = read_facts(database)
        database.close()
        assert [name for name in names if not (moves(name) or name in OF_THE_PLACE)] == []


@pytest.mark.parametrize("way", ["copy", "backup"])
def test_a_killed_move_leaves_nothing_in_the_temporary_folder(
    way: str, place: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = place("sqlite"), tmp_path / "temporary"
    with opened(source, tmp_path) as gate:
        gate.ledger.define_dataset("raw", settings={"long": "x" * 10_000})
        gate.ledger.publish("raw", [str(number) for number in range(10_000)])
    folder.mkdir()
    for name in ("TMPDIR", "SQLITE_TMPDIR"):
        monkeypatch.setenv(name, str(folder))
    words = ["copy", source, place("sqlite")] if way == "copy" else ["backup", str(tmp_path / "b.gz"), "--url", source]
    found = killed_at_the_first_portion(words, folder)
    assert found == []
    assert not (tmp_path / "b.gz").exists()


def killed_at_the_first_portion(words: list[str], folder: Path) -> list[Path]:
    """The files that a command leaves in a folder when it is killed while it reads."""
    text = (
        "import os, signal, sys\n"
        "from headgate.stores.sql.moving.whole import SqlSource\n"
        "SqlSource.rows = lambda self, table: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from headgate.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run([sys.executable, "-c", text, *words], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return list(folder.iterdir())
