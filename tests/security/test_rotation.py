"""Master keys are changed without a stop: wherever it is interrupted, all secrets stay readable."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate import BadValue, Gate, Refused, WrongKey
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import database
from tests.contract.steps import Gates
from tests.security.conftest import CANARY, OTHER

MANY = {f"secret{number}": f"{CANARY}-{number}" for number in range(30)}
#: Rewraps one by one, and reports each.
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
REWRAP = """
import sys, headgate
gate = headgate.connect(sys.argv[1], master_key_file=sys.argv[2])
store = gate.ledger.custody
one = store.rewrap
def stepwise(pairs):
    sys.stdin.readline()
    count = one(pairs)
    print(count, flush=True)
    return count
store.rewrap = stepwise
gate.secrets.rewrap(batch=1)
"""
COUNT = """select master_id, count(*) from (select master_id from hg_credential union all
           select master_id from hg_escrow) x group by master_id"""


def under(gate: Gate) -> dict[int, int]:
    """The number of copies under each master key."""
    rows = database(gate).read(lambda tx: tx.all(Statement("Count.", COUNT)))
    return {int(number): int(count) for number, count in rows}


def secrets(gate: Gate, key: str) -> dict[str, str]:
    return dict(gate.ledger.connections("clean", key)["inputs"]["raw"].secrets)


def test_rewrap_refuses_a_ring_of_one_key(admin: Gate, keys: dict[str, str]) -> None:
    before = under(admin)
    with pytest.raises(Refused, match="keys rotate"):
        admin.secrets.rewrap()
    assert under(admin) == before == {1: 7}


def test_after_a_rotation_both_keys_open_and_the_newest_seals(admin: Gate, keys: dict[str, str]) -> None:
    assert admin.secrets.rotate() == 2
    admin.ledger.define_dataset("raw", secrets={"password": "next"})
    assert under(admin) == {1: 5, 2: 2}
    assert secrets(admin, keys["clean"]) == {"password": "next"}
    assert admin.ledger.define_dataset("tidy", secrets={"password": OTHER}).changes == ()


def test_rewrap_seals_all_under_the_newest_key_and_refuses_older_ones(
    gates: Gates, admin: Gate, worker: Gate, keys: dict[str, str], ring: Path
) -> None:
    old_ring = ring.with_name("old")
    old_ring.write_text(ring.read_text())
    old_ring.chmod(0o600)
    admin.secrets.rotate()
    assert (admin.secrets.rewrap(batch=2), admin.secrets.rewrap()) == (7, 0)
    assert under(admin) == {2: 7}
    assert secrets(worker, keys["clean"]) == {"password": CANARY}
    with pytest.raises(WrongKey, match="none before v2"):
        gates.open(master_key_file=str(old_ring)).ledger.define_dataset("raw", secrets={"password": "x"})
    ring.write_text(ring.read_text().splitlines()[1] + "\n")
    assert admin.ledger.define_dataset("raw", uri="db://raw", secrets={"password": CANARY}).changes == ()
    assert secrets(worker, admin.secrets.new_key("clean", beside=True).key) == {"password": CANARY}


def test_secrets_restored_under_an_old_key_are_refused_until_they_are_rewrapped(
    admin: Gate, keys: dict[str, str]
) -> None:
    """Such as a restored row: the key may have been lost since."""
    look = Statement("Look.", "select master_wrap from hg_credential where job_id = 0 order by dataset_id")
    ((old,), *_) = database(admin).read(lambda tx: tx.all(look))
    admin.secrets.rotate()
    admin.secrets.rewrap()
    ((new,), *_) = database(admin).read(lambda tx: tx.all(look))
    back = Statement(
        "Back.", "update hg_credential set master_id = 1, master_wrap = :old where job_id = 0 and master_wrap = :new"
    )
    database(admin).write(lambda tx: tx.run(back, old=old, new=new))
    with pytest.raises(WrongKey, match="rewrap them first"):
        admin.secrets.new_key("clean", lost=True)
    assert admin.secrets.rewrap() == 1
    assert admin.secrets.new_key("clean", lost=True).warnings == ()


def test_a_ring_without_a_key_that_is_still_needed_is_reported(admin: Gate, keys: dict[str, str], ring: Path) -> None:
    admin.secrets.rotate()
    admin.secrets.rotate()
    ring.write_text("".join(ring.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(WrongKey, match="master key v1 is missing from the ring"):
        admin.secrets.rewrap()
    assert under(admin) == {1: 7}


def test_a_rewrap_that_is_killed_leaves_everything_readable(
    admin: Gate, worker: Gate, keys: dict[str, str], ring: Path, store_url: str
) -> None:
    """kill -9 after some batches; each check in between can read every secret."""
    admin.ledger.define_dataset("raw", secrets=MANY)
    admin.secrets.rotate()
    whole = sum(under(admin).values())
    for some in (1, 7, 16):
        process = subprocess.Popen([sys.executable, "-c", REWRAP, store_url, str(ring)], **PIPES)
        assert process.stdout
        assert process.stdin
        # It continues a little after the last one that is seen, and waits there.
        process.stdin.write(b"\n" * (some + 1))
        process.stdin.flush()
        for _ in range(some):
            assert process.stdout.readline() == b"1\n"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        found = under(admin)
        assert found[1] > 0, "the kill came too late"
        assert sum(found.values()) == whole
        assert secrets(worker, keys["clean"]) == MANY
        assert admin.ledger.define_dataset("raw", secrets=MANY).changes == (), "the master keys open all, too"
    left = under(admin)[1]
    assert admin.secrets.rewrap() == left
    assert under(admin) == {2: whole}
    assert secrets(worker, keys["clean"]) == MANY


def test_the_ring_is_readable_only_by_its_owner(admin: Gate, keys: dict[str, str], ring: Path) -> None:
    assert stat.S_IMODE(ring.stat().st_mode) == 0o600
    ring.chmod(0o640)
    with pytest.raises(BadValue, match="chmod 600"):
        admin.secrets.rotate()


def test_a_malformed_key_ring_is_refused_without_printing_it(gates: Gates, ring: Path) -> None:
    key = "A" * 43
    for text in ("", "v1", "v1:short", f"1:{key}", f"v0:{key}", f"v1:{key}\nv1:{key}", f"v1:{key}\n\xff"):
        ring.write_text(text, encoding="latin-1")
        ring.chmod(0o600)
        with pytest.raises(BadValue) as refusal:
            gates.open(master_key_file=str(ring)).secrets.rewrap()
        assert "AAAA" not in str(refusal.value)
