"""No token or id is granted again after a restore or a copy, whatever the clocks say."""

import secrets
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import BadPayload, BadValue
from headgate.core.jumps import LAST_NUMBER, LAST_TOKEN, NEXT, STEP, Jump, check_room, next_jump
from headgate.ingest.formats.ark import mint_for
from headgate.moving import copying
from headgate.stores.archive.restores import RestoreLog
from tests.contract.queue_steps import taken_batch
from tests.moving.test_backup import backup, changed, restore, with_header

YEAR = 365 * 86_400 * 1_000_000
SHOULDER = "ark:/99999/fk4"


def used(url: str) -> dict[str, Any]:
    """The numbers that a store issues: tokens of locks (one known before, one new), claims and items; and ids."""
    with headgate.connect(url, work_folder="/work") as gate:
        locks = [gate.locks.acquire("ann", resource, "shared").token for resource in ("known", "new")]
        gate.ledger.define_dataset("raw")
        gate.ledger.define_job("check", inputs=["raw"])
        gate.ledger.publish("raw", secrets.token_hex(4))
        claim = gate.ledger.find_next("check")
        assert claim is not None
        batch = gate.queue.submit("demo", "ann", "https://example.org/x")
        taken = taken_batch(gate.queue)
        gate.queue.create_jobs(taken, [{"payload_url": "https://example.org/1"}])
        (job,) = gate.queue.jobs(batch=batch.id)
        return {
            "known": locks[0], "new": locks[1], "claim": claim.token, "item": taken.token,
            "bid": int(batch.id[3:]), "jid": int(job.id[3:]), "ark": str(mint_for(job.id, SHOULDER)),
        }  # fmt: skip


def assert_beyond(later: dict[str, Any], earlier: dict[str, Any]) -> None:
    assert later["ark"] != earlier["ark"]
    for name in ("known", "new", "claim", "item", "bid", "jid"):
        assert later[name] > earlier[name], name
        assert later[name] <= (LAST_NUMBER if name in ("bid", "jid") else LAST_TOKEN)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[str, Path]:
    """A store in which no batch was ever made, and its backup."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with headgate.connect(url) as gate:
        gate.locks.acquire("ann", "known", "shared")
    backup(url, tmp_path / "b.gz")
    return url, tmp_path / "b.gz"


def test_a_restore_reuses_no_id_when_its_clock_is_behind(saved: tuple[str, Path], sql_url: str) -> None:
    url, file = saved
    changed(file, lambda lines: with_header(at=lines[0]["at"] + YEAR)(lines), forged=True)
    given = used(url)
    restore(file, sql_url)
    assert_beyond(used(sql_url), given)


@pytest.mark.parametrize("log", ["kept", "lost"])
def test_two_restores_of_one_backup_reuse_no_id(
    log: str, saved: tuple[str, Path], sql_url: str, tmp_path: Path
) -> None:
    _url, file = saved
    restore(file, sql_url)
    first = used(sql_url)
    second = f"sqlite:///{tmp_path / 'second.db'}"
    if log == "lost":
        file.with_name("b.gz.restored").unlink()
    restore(file, second)
    found = used(second)
    if log == "kept":
        assert_beyond(found, first)
    # Random parts are equal once in 10^8 times.
    assert all(found[name] != first[name] for name in found)


def test_a_restore_is_recorded_beside_the_backup_privately(saved: tuple[str, Path], tmp_path: Path) -> None:
    _url, file = saved
    for number in range(2):
        restore(file, f"sqlite:///{tmp_path / str(number)}")
    log = file.with_name("b.gz.restored")
    assert len(log.read_text().splitlines()) == 2
    assert log.stat().st_mode & 0o777 == 0o600
    with log.open("a") as out:
        out.write("what is this\n")
    with pytest.raises(BadPayload, match="line 3 was not written by a restore"):
        restore(file, f"sqlite:///{tmp_path / 'third'}")
    assert not (tmp_path / "third").exists()


def test_a_backup_that_cannot_be_written_beside_is_restored_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "b.gz.restored").symlink_to(tmp_path / "elsewhere")
    for file in (tmp_path / "no folder" / "b.gz", tmp_path / "b.gz"):
        log = RestoreLog(file)
        assert log.next(Jump()).tokens >= STEP.tokens
        assert "headgate store raise-tokens" in log.notes[0]
    assert not (tmp_path / "elsewhere").exists()


def test_a_second_copy_of_a_store_goes_further_than_the_first(saved: tuple[str, Path], tmp_path: Path) -> None:
    url, _file = saved
    first, second, restored = (f"sqlite:///{tmp_path / name}" for name in ("first", "second", "restored"))
    given = []
    for target in (first, second):
        with copying(url, target, force=True) as work:
            work.run(lambda _: None)
        given.append(used(target))
    assert_beyond(given[1], given[0])
    backup(url, tmp_path / "later.gz")
    restore(tmp_path / "later.gz", restored)
    assert_beyond(used(restored), given[1])


def test_a_copy_of_an_idle_store_continues_its_ids(saved: tuple[str, Path], tmp_path: Path) -> None:
    url, _file = saved
    new = f"sqlite:///{tmp_path / 'new.db'}"
    with headgate.connect(url) as gate:
        before = gate.queue.submit("demo", "ann", "https://example.org/x").id
    with copying(url, new) as work:
        work.run(lambda _: None)
    with headgate.connect(new) as gate:
        assert int(gate.queue.submit("demo", "ann", "https://example.org/x").id[3:]) == int(before[3:]) + 1


def test_jumps_grow_and_end_before_the_largest_number() -> None:
    known = Jump()
    for number in range(1000):
        following = next_jump(known, secrets.randbelow)
        step = STEP if number == 0 else NEXT
        assert step.tokens <= following.tokens - known.tokens < 2 * step.tokens
        assert step.ids <= following.ids - known.ids < 2 * step.ids
        known = following
    check_room("x", 2**52, {"bid": 5 * 10**9}, Jump())
    with pytest.raises(BadValue, match="exceed 2"):
        check_room("x", LAST_TOKEN - STEP.tokens, {}, Jump())
    with pytest.raises(BadValue, match="exceed ten digits"):
        check_room("x", 0, {"jid": LAST_NUMBER - STEP.ids}, Jump())
