"""History that moves out of ZooKeeper: which entries stay, which may still change, and lost answers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate import ForeignStore, StoreUnavailable
from headgate.daemons.history_mover import move
from headgate.stores.ports.history import HistoryKeeper, HistorySource
from headgate.stores.sql.opening import open_database
from headgate.stores.sql.store import SqlStore
from headgate.stores.zookeeper.ensemble.session import ZkSession
from headgate.stores.zookeeper.history.folders import MOVED
from headgate.stores.zookeeper.history.moving import MovableHistory
from headgate.stores.zookeeper.locks import refusals
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from tests.contract.steps import EXCLUSIVE, SHARED, history_of, in_thread, request_for
from tests.faults.mover import KEPT_FOLDERS, PORTION, shrink
from tests.proxy import MULTI, FrameProxy
from tests.zookeeper.conftest import OpenStore

R = "file:///d/1"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch.setattr)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[HistoryKeeper]:
    database = SqlStore(open_database(f"sqlite:///{tmp_path}/kept.sqlite"))
    yield database.keeper
    database.close()


@pytest.fixture
def store(open_store: OpenStore, keeper: HistoryKeeper) -> ZookeeperLocks:
    store = open_store()
    store.told.keeper = keeper
    return store


def locks_of(store: ZookeeperLocks) -> HistorySource:
    return MovableHistory(store._sessions, store.told, store._tree.clock)


def go_on(store: ZookeeperLocks, folders: int = KEPT_FOLDERS) -> None:
    """Fill this many folders."""
    for _ in range(4 * folders):
        (lock,) = store.acquire(request_for("busy", ("file:///busy", EXCLUSIVE)))
        store.release(lock.id, lock.token)


def refuse(store: ZookeeperLocks) -> None:
    with pytest.raises(Exception, match="cannot acquire"):
        store.acquire(request_for("b", (R, SHARED)))


def test_the_newest_folders_and_the_young_ones_stay(store: ZookeeperLocks, raw: Any, keeper: HistoryKeeper) -> None:
    source, root = locks_of(store), store._tree.history
    go_on(store, folders=4)
    folders = sorted(raw.get_children(root))
    assert move(source, keeper, 3600.0) == 0
    while move(source, keeper, 0.0):
        pass
    assert sorted(raw.get_children(root)) == folders[-KEPT_FOLDERS:]
    assert raw.get(f"{root}/{folders[-1]}")[1].version == 0, "the newest is still open"


def test_the_cost_of_a_move_depends_on_its_portion_only(
    store: ZookeeperLocks, keeper: HistoryKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sizes, ask = locks_of(store), list[int](), ZkSession.ask
    go_on(store, folders=6)

    def counted(self: ZkSession, *questions: Any) -> list[Any]:
        sizes.append(len(questions))
        return ask(self, *questions)

    monkeypatch.setattr(ZkSession, "ask", counted)
    assert move(source, keeper, 0.0) == PORTION
    assert sum(sizes) <= 2 * PORTION + 5  # Clock, folders, one folder, its mark and its names; read, and gone.


def test_a_refusal_that_is_counted_meanwhile_is_not_lost(
    store: ZookeeperLocks, keeper: HistoryKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MINUTE", 10**15)
    store.acquire(request_for("a", (R, EXCLUSIVE)))
    refuse(store)
    go_on(store, folders=4)
    source = locks_of(store)
    stale = next(leaf for leaf in source.oldest(0.0, 100) if leaf.entry.event == "refuse")
    keeper.copy(source.tag, [stale])
    refuse(store)
    assert source.remove([stale]) == 0, "it has been changed since it was read"
    assert told_of_refusals(store) == [2]
    while move(source, keeper, 0.0):
        pass
    keeper.copy(source.tag, [stale])  # A mover that was suspended does not restore removed entries.
    assert told_of_refusals(store) == [2]
    refuse(store)
    assert told_of_refusals(store) == [1, 2], "what has been moved is not counted on"


def told_of_refusals(store: ZookeeperLocks) -> list[int]:
    return [entry.count for entry in history_of(store, event="refuse")]


def test_a_foreign_node_stays_and_does_not_block_the_removal_of_others(
    store: ZookeeperLocks, raw: Any, keeper: HistoryKeeper
) -> None:
    go_on(store, folders=4)
    first = f"{store._tree.history}/{min(raw.get_children(store._tree.history))}"
    raw.create(f"{first}/foreign:0000000099", b"?")
    told = history_of(store)
    while move(locks_of(store), keeper, 0.0):
        pass
    assert raw.get_children(first) == ["foreign:0000000099"]
    assert len(raw.get_children(store._tree.history)) == KEPT_FOLDERS + 1
    assert history_of(store) == told


def test_another_entry_of_the_same_id_is_never_overwritten(store: ZookeeperLocks, keeper: HistoryKeeper) -> None:
    go_on(store, folders=4)
    source = locks_of(store)
    leaf = source.oldest(0.0, 1)[0]
    keeper.copy(source.tag, [replace(leaf, entry=replace(leaf.entry, token=77))])
    before = history_of(store)
    with pytest.raises(ForeignStore, match="another entry"):
        move(source, keeper, 0.0)
    assert history_of(store) == before


def test_a_lost_answer_whose_history_was_moved_is_reported_as_unknown(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy, keeper: HistoryKeeper, raw: Any
) -> None:
    """Otherwise it would be mistaken for a change that did not happen, and be repeated."""
    (lock,) = proxied.acquire(request_for("a", (R, SHARED)))
    proxy.lose_answer_to(MULTI)
    cutting = in_thread(proxy.cut_when_lost)
    upgrading = in_thread(lambda: proxied.upgrade(lock.id, lock.token))
    cutting.result(30)
    go_on(store, folders=4)
    while move(locks_of(store), keeper, 0.0):
        pass
    assert MOVED not in [raw.get(f"{store._tree.history}/{name}")[0] for name in raw.get_children(store._tree.history)]
    proxy.heal()
    with pytest.raises(StoreUnavailable, match="has been copied away: check whether the request took effect"):
        upgrading.result(30)
    assert [entry.event for entry in history_of(store, resource=R)] == ["upgrade", "grant"]
