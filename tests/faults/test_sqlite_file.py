"""The file of a SQLite store is deleted or replaced while it is in use: no call is answered from the old file."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import headgate
from headgate import Gate, Lock, StoreUnavailable

R = "data:raw/1"
Change = Callable[[Path], object]
Call = Callable[[Gate, Lock], object]


def delete(path: Path) -> None:
    path.unlink()


def delete_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def move_another_store_over_it(path: Path) -> None:
    other = path.parent / "other.sqlite"
    headgate.connect(f"sqlite:///{other}").close()
    other.replace(path)


def move_something_else_over_it(path: Path) -> None:
    other = path.parent / "letter.txt"
    other.write_text("Dear SQLite, " * 1000)
    other.replace(path)


def move_a_copy_over_it(path: Path) -> None:
    Path(shutil.copy(path, path.parent / "copy.sqlite")).replace(path)


CHANGES = [delete, delete_the_folder, move_another_store_over_it, move_something_else_over_it, move_a_copy_over_it]
CALLS: dict[str, Call] = {
    "check": lambda gate, lock: gate.locks.check(lock),
    "renew": lambda gate, lock: gate.locks.renew(lock),
    "release": lambda gate, lock: gate.locks.release(lock),
    "acquire": lambda gate, _: gate.locks.acquire("b", "free", "write"),
    "acquire_all": lambda gate, _: gate.locks.acquire_all("b", {"one": "read", "two": "write"}),
    "list": lambda gate, _: gate.locks.list(),
    "history": lambda gate, _: gate.history(),
    "expire": lambda gate, _: gate.locks.expire(),
    "find_next": lambda gate, _: gate.ledger.find_next("make", worker="w"),
    "ping": lambda gate, _: gate.store.ping(),
}


class Opened:
    """A store with a lock on it, and a separate gate for each call, open before anything happens to the file."""

    def __init__(self, path: Path, mode: str, stack: ExitStack) -> None:
        self.path, self.mode = path, mode
        path.parent.mkdir()
        self.url = f"sqlite:///{path}?journal_mode={mode}"
        self.gates = {name: stack.enter_context(headgate.connect(self.url)) for name in CALLS}
        gate = self.gates["check"]
        gate.ledger.define_dataset("raw")
        gate.ledger.define_dataset("made")
        gate.ledger.define_job("make", inputs=["raw"], outputs=["made"])
        gate.ledger.publish("raw", ["1"])
        self.lock = gate.locks.acquire("a", R, "read", lease=300)
        for each in self.gates.values():
            each.locks.check(self.lock)


@pytest.fixture(params=["truncate", "wal"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with ExitStack() as stack:
        yield Opened(tmp_path / "store" / "headgate.sqlite", request.param, stack)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_call_notices_a_replaced_file(opened: Opened, change: Change) -> None:
    change(opened.path)
    before = sorted(opened.path.parent.glob("*.sqlite"))
    for name, call in CALLS.items():
        with pytest.raises(StoreUnavailable, match=r"was (deleted|replaced)"):
            pytest.fail(f"{name} answered {call(opened.gates[name], opened.lock)}")
    assert sorted(opened.path.parent.glob("*.sqlite")) == before, "no empty store was made in its place"


@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
def test_another_store_is_refused_until_the_process_connects_again(opened: Opened, change: Change) -> None:
    change(opened.path)
    gate = opened.gates["check"]
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            gate.locks.acquire("b", "free", "write")
    if change is move_another_store_over_it and opened.mode == "truncate":
        with headgate.connect(opened.url) as anew:
            assert anew.locks.list() == []
            anew.locks.acquire("b", R, "write")
    with pytest.raises(StoreUnavailable):
        gate.locks.check(opened.lock)


def test_the_same_store_restored_is_used_again(opened: Opened) -> None:
    """As after a backup was moved into place: the first call reports it, the next ones use the new file.

    With a write-ahead log, which belongs to the old file, the store cannot be used until all processes have closed it.
    """
    move_a_copy_over_it(opened.path)
    gate = opened.gates["check"]
    with pytest.raises(StoreUnavailable, match="replaced"):
        gate.locks.check(opened.lock)
    if opened.mode == "wal":
        with pytest.raises(StoreUnavailable, match="Stop all processes that use it"):
            gate.locks.check(opened.lock)
        return
    assert gate.locks.check(opened.lock).token == opened.lock.token
    gate.locks.release(opened.lock)
    with headgate.connect(opened.url) as anew:
        assert anew.locks.list() == []


def test_a_file_that_is_moved_away_and_back_is_used_again(opened: Opened) -> None:
    away = opened.path.with_suffix(".away")
    opened.path.rename(away)
    with pytest.raises(StoreUnavailable, match="deleted or moved"):
        opened.gates["check"].locks.check(opened.lock)
    away.rename(opened.path)
    assert opened.gates["check"].locks.check(opened.lock).token == opened.lock.token
