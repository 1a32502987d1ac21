"""A store knows its ring of master keys: another ring is refused at its first use, and a lost one is not replaced."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import Gate, Refused, WrongKey
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import database
from tests.contract.steps import Gates
from tests.security.conftest import CANARY, HOLDERS, OTHER
from tests.security.test_rotation import secrets, under

FORGET = Statement("As in a store of before.", "delete from hg_meta where substr(name, 1, 13) = 'master_check.'")
FACTS = Statement("What is known.", "select name, value from hg_meta")
#: Operations that use a ring.
USES: dict[str, Callable[[Gate], Any]] = {
    "a new secret": lambda gate: gate.ledger.define_dataset("raw", secrets={"password": "changed"}),
    "a new key": lambda gate: gate.secrets.new_key("clean", beside=True),
    "a key in place of a lost one": lambda gate: gate.secrets.new_key("clean", lost=True),
    "rewrap": lambda gate: gate.secrets.rewrap(),
}


@pytest.fixture
def foreign(gates: Gates, tmp_path: Path) -> Gate:
    """A user with the ring of another store, whose keys have the same numbers."""
    file = tmp_path / "foreign"
    file.write_text("".join(f"v{number}:{letter * 42}A\n" for number, letter in ((1, "a"), (2, "b"))))
    file.chmod(0o600)
    return gates.open(master_key_file=str(file))


@pytest.mark.parametrize("known", [True, False], ids=["known", "of before"])
def test_a_ring_of_the_same_numbers_is_refused_and_changes_nothing(
    known: bool, admin: Gate, worker: Gate, foreign: Gate, keys: dict[str, str]
) -> None:
    if not known:
        database(admin).write(lambda tx: tx.run(FORGET))
    before = under(admin)
    for use in USES.values():
        with pytest.raises(WrongKey, match=r"ring of another store|sealed with another ring"):
            use(foreign)
        assert under(admin) == before
    assert secrets(worker, keys["clean"]) == {"password": CANARY}
    admin.secrets.rotate()
    assert admin.secrets.rewrap() == 7
    assert under(admin) == {2: 7}


def test_the_first_ring_that_seals_becomes_the_stores_own(gates: Gates, foreign: Gate, ring: Path) -> None:
    foreign.ledger.define_dataset("raw", secrets={"password": CANARY})
    with pytest.raises(WrongKey, match="does not exist"):
        gates.open(master_key_file=str(ring)).secrets.rotate()
    assert not ring.exists()


def test_the_check_value_of_a_master_key_is_not_the_key(admin: Gate, keys: dict[str, str], ring: Path) -> None:
    facts: dict[str, str] = dict(database(admin).read(lambda tx: tx.all(FACTS)))
    assert len(facts["master_check.1"]) == 43
    assert facts["master_check.1"] not in ring.read_text()
    assert ring.read_text().strip()[3:] not in str(facts)


def test_a_lost_ring_is_not_replaced_silently(admin: Gate, worker: Gate, keys: dict[str, str], ring: Path) -> None:
    admin.ledger.define_dataset("alone", secrets={"password": OTHER})
    before = under(admin)
    kept = ring.read_text()
    ring.unlink()
    with pytest.raises(WrongKey) as refused:
        admin.secrets.rotate()
    for part in ("sealed with v1", "does not exist", "1 secret that no job's key opens (alone/password)",
                 "2 jobs without their keys (clean, report)", "keys rotate --lost"):  # fmt: skip
        assert part in str(refused.value)
    assert not ring.exists()
    assert under(admin) == before
    ring.write_text(kept)
    ring.chmod(0o600)
    with pytest.raises(Refused, match="nothing is lost"):
        admin.secrets.rotate(lost=True)
    assert admin.secrets.rotate() == 2


def test_a_store_continues_without_its_lost_key_ring_on_request(
    admin: Gate, worker: Gate, keys: dict[str, str], ring: Path
) -> None:
    ring.unlink()
    assert admin.secrets.rotate(lost=True) == 2
    assert under(admin) == {0: 3}
    assert secrets(worker, keys["clean"]) == {"password": CANARY}
    assert admin.secrets.new_key("clean", lost=True).warnings != ()
    admin.secrets.new_key("report", lost=True)
    admin.ledger.define_dataset("raw", secrets={"password": "next"}, holders=HOLDERS)
    admin.ledger.define_dataset("tidy", secrets={"password": "last"}, holders=HOLDERS)
    assert secrets(worker, admin.secrets.new_key("clean", beside=True).key) == {"password": "next"}
    admin.secrets.rotate()
    assert admin.secrets.rewrap() > 0
    assert set(under(admin)) == {3}


def test_a_ring_that_lacks_the_stores_key_is_another_ring(
    admin: Gate, gates: Gates, keys: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "later"
    file.write_text(f"v5:{'a' * 42}A\n")
    file.chmod(0o600)
    other = gates.open(master_key_file=str(file))
    with pytest.raises(WrongKey, match="master key v1 is missing from the ring"):
        other.ledger.define_dataset("raw", secrets={"password": "x"})
    with pytest.raises(WrongKey, match="is another ring"):
        other.secrets.rotate()
