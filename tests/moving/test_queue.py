"""The queue alone, to ZooKeeper and back: every item keeps its state, and no id or token is reused."""

import os
import signal
import warnings
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import BadValue, ForeignStore, Gate, HalfMoved, ItemLost, StoreInUse
from headgate.core.queue.model import Item
from headgate.moving import copying
from headgate.stores.zookeeper.queue.moving import ZookeeperQueuePlace
from tests.contract.queue_steps import everything, new_batch, taken_batch, taken_job, untaken
from tests.moving.furniture import fill_queue
from tests.moving.test_backup import backup, restore
from tests.shared_servers import Servers


@pytest.fixture
def zookeeper(servers: Servers) -> Iterator[str]:
    url = servers.fresh("zookeeper")
    yield url
    servers.drop("zookeeper", url)


def copy(source: str, target: str, *, force: bool = False) -> None:
    with copying(source, target, force=force) as work:
        work.run(lambda _: None)


def short(at: Any) -> Any:
    """The times as ZooKeeper's nodes store them."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000) if isinstance(at, datetime) else at


def seen(gate: Gate) -> dict[str, Any]:
    """All data of the queue, without takes and their tokens."""
    found = everything(gate)
    items: list[Item] = [*found.batches, *found.jobs]
    told = [(short(each.at), each.noun, each.event, each.job, each.resource, each.client, each.before, each.after,
             each.reason, each.token) for each in found.history]  # fmt: skip
    return {
        "items": [replace(untaken(each), since=short(each.since), **_report(each)) for each in items],
        "folders": found.folders,
        "counts": found.counts,
        "holds": [replace(each, since=short(each.since)) for each in found.holds],
        "history": told,
        "of a batch": [[entry.job for entry in gate.history(item=each.id)] for each in found.batches],
        "faults": gate.queue.faults(),
    }  # fmt: skip


def _report(item: Any) -> dict[str, Any]:
    report = getattr(item, "report", None)
    return {"report": replace(report, at=short(report.at))} if report else {}


def test_a_queue_goes_to_zookeeper_and_back_completely(zookeeper: str, tmp_path: Path) -> None:
    here, back = f"sqlite:///{tmp_path / 'here.db'}", f"sqlite:///{tmp_path / 'back.db'}"
    with headgate.connect(here, work_folder="/work") as gate:
        fill_queue(gate)
        gone = new_batch(gate.queue, "gone")
        kept = taken_job(gate.queue, "downloading")
        gate.queue.give_back(kept)
        gate.queue.delete(gate.queue.fire(taken_until(gate, gone.id), "hold").id, reason="a mistake")
        before = seen(gate)
    copy(here, zookeeper)
    with headgate.connect(zookeeper, work_folder="/work") as gate:
        assert seen(gate) == before
        with pytest.raises(ItemLost, match=f"token {kept.token}"):
            gate.queue.give_back(kept)
        taken = taken_job(gate.queue, "downloading")
        assert (taken.id, taken.token > kept.token) == (kept.id, True)
        gate.queue.renew(taken)
        assert gate.queue.fire(taken, "finish").token > taken.token
        assert gate.history(item=taken.id)[0].token >= taken.token
        assert new_batch(gate.queue).id > gone.id
        middle = seen(gate)
    copy(zookeeper, back)
    with headgate.connect(back, work_folder="/work") as gate:
        assert seen(gate) == middle
        assert taken_job(gate.queue, gate.queue.job(kept.id).state).token > taken.token
        assert new_batch(gate.queue).id > middle["items"][0].id


def taken_until(gate: Gate, batch: str) -> Any:
    """That batch, taken; those before it stay taken until they are released."""
    before = []
    while (found := taken_batch(gate.queue)).id != batch:
        before.append(found)
    for each in before:
        gate.queue.give_back(each)
    return found


def test_a_queue_goes_into_the_database_that_keeps_the_ledger(zookeeper: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with headgate.connect(url) as gate:
        gate.ledger.define_dataset("raw")
        lock = gate.locks.acquire("ann", "x", "exclusive")
    with headgate.connect(zookeeper) as gate:
        batch = new_batch(gate.queue)
        taken_batch(gate.queue)
        with pytest.raises(StoreInUse, match="1 taken batch"):
            copy(zookeeper, url)
    copy(zookeeper, url, force=True)
    with headgate.connect(url) as gate:
        assert [each.id for each in gate.queue.batches()] == [batch.id]
        assert taken_batch(gate.queue).id == batch.id
        gate.locks.release(lock)
        assert [each.name for each in gate.ledger.datasets()] == ["raw"]
    with pytest.raises(BadValue, match="is not empty"):
        copy(zookeeper, url, force=True)


def test_a_target_that_already_keeps_locks_never_reuses_a_token(zookeeper: str, tmp_path: Path) -> None:
    here, back = f"sqlite:///{tmp_path / 'here.db'}", f"sqlite:///{tmp_path / 'back.db'}"
    headgate.connect(back).close()
    tokens = []
    for url, following in ((here, zookeeper), (zookeeper, back), (back, "")):
        with headgate.connect(url) as gate:
            for resource in ("known", "new"):
                for _ in range(2):
                    gate.locks.release(gate.locks.acquire("ann", resource, "exclusive"))
                tokens.append(gate.locks.acquire("ann", resource, "exclusive").token)
        if following:
            copy(url, following)
    assert tokens[0::2] == sorted(set(tokens[0::2]))
    assert tokens[1::2] == sorted(set(tokens[1::2]))


def test_only_our_own_spelling_moves_and_only_into_an_empty_queue(zookeeper: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    for each in (url, zookeeper):
        with headgate.connect(each) as gate:
            new_batch(gate.queue)
    with pytest.raises(BadValue, match="is not empty"):
        copy(url, zookeeper)
    with pytest.raises(BadValue, match="is copied only with spelling"):
        copy(url, f"{zookeeper}/other?spelling=mrt-zk")


def test_an_item_that_is_taken_while_the_queue_is_copied_is_found(zookeeper: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with headgate.connect(url) as gate:
        new_batch(gate.queue)
        taken: list[Any] = []

        def take_once(_done: int) -> None:
            if not taken:
                taken.append(taken_batch(gate.queue))

        with pytest.raises(StoreInUse, match="1 taken batch"), copying(url, zookeeper) as work:
            work.run(take_once)
        gate.queue.give_back(taken[0])
    copy(url, zookeeper)


def test_a_queue_that_was_restored_goes_to_zookeeper_with_its_numbers(zookeeper: str, tmp_path: Path) -> None:
    here, restored = f"sqlite:///{tmp_path / 'here.db'}", f"sqlite:///{tmp_path / 'restored.db'}"
    back = f"sqlite:///{tmp_path / 'back.db'}"
    with headgate.connect(here, work_folder="/work") as gate:
        new_batch(gate.queue)
    backup(here, tmp_path / "b.gz")
    restore(tmp_path / "b.gz", restored)
    ids: list[str] = []
    for url, following in ((restored, zookeeper), (zookeeper, back), (back, "")):
        with headgate.connect(url, work_folder="/work") as gate:
            batch = new_batch(gate.queue)
            taken = taken_until(gate, batch.id)
            gate.queue.create_jobs(taken, [{"payload_url": "https://example.org/1"}] * 2)
            gate.queue.give_back(taken)
            ids += [batch.id, *(job.id for job in gate.queue.jobs(batch=batch.id))]
            assert gate.queue.faults() == []
        if following:
            copy(url, following)
    assert len(set(ids)) == 9
    assert ids[0::3] == sorted(ids[0::3])
    assert ids[1::3] == sorted(ids[1::3])
    assert int(ids[0][3:]) > 10**8


@pytest.mark.parametrize("kind", ["sqlite", "zookeeper"])
def test_a_source_that_is_not_a_store_is_neither_copied_nor_created(kind: str, zookeeper: str, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'none.db'}"
    source, target = (database, zookeeper) if kind == "sqlite" else (zookeeper, database)
    with pytest.raises(ForeignStore, match="is not a store of Headgate"):
        copy(source, target)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(ForeignStore, match="is not a store of Headgate"):
        copy(zookeeper, database)


@pytest.mark.parametrize("step", ["put_holds", "put_batches", "put_jobs", "put_history", "finish"])
def test_a_killed_copy_leaves_an_unusable_queue_and_can_be_repeated(step: str, zookeeper: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with headgate.connect(url, work_folder="/work") as gate:
        batch = new_batch(gate.queue)
        gate.queue.create_jobs(taken_batch(gate.queue), [{"payload_url": "https://example.org/1"}])
        gate.queue.set_hold("demo", reason="full")
        gate.queue.give_back(gate.queue.batch(batch.id))
        before = seen(gate)
    killed_after(step, url, zookeeper)
    with pytest.raises(HalfMoved, match="epeat the command"):
        headgate.connect(zookeeper)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    headgate.connect(other).close()
    with pytest.raises(BadValue, match="unfinished copy of another queue"):
        copy(other, zookeeper)
    copy(url, zookeeper)
    with headgate.connect(zookeeper, work_folder="/work") as gate:
        assert seen(gate) == before


def killed_after(step: str, source: str, target: str) -> None:
    """A copy whose process is killed right after a step, except after the last one, which completes it."""
    with warnings.catch_warnings():  # Newer Pythons warn of forks beside threads; this child uses none of them.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        real = getattr(ZookeeperQueuePlace, step)

        def die(self: ZookeeperQueuePlace, *given: Any) -> None:
            if step != "finish":
                real(self, *given)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(ZookeeperQueuePlace, step, die)
        try:
            copy(source, target)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
