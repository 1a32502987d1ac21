"""A job's key opens the secrets of the job's inputs and outputs, and nothing else, whatever happened to the store."""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import BadValue, Claim, Gate, Refused, WrongKey
from headgate.core.access.credentials import Custody, CustodyChange, Sealed
from headgate.core.values.redaction import MASKED
from headgate.service.secrets.use_cases import Opened, open_document
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import claimed, database, everything
from tests.contract.steps import Gates, in_thread
from tests.security.conftest import CANARY, HOLDERS, OTHER

Keys = dict[str, str]
EVERY_KEY = "hgk_" + "A" * 43


def change(gate: Gate, text: str, **params: object) -> None:
    """Changes by an attacker who can write to the store."""
    database(gate).write(lambda tx: tx.run(Statement("By hand.", text), **params))


def secrets_of(claim: Claim | None) -> dict[str, dict[str, str]]:
    assert claim
    return {name: dict(port.secrets) for name, port in {**claim.inputs, **claim.outputs}.items()}


def opened(gate: Gate, job: str, key: str) -> dict[str, dict[str, str]]:
    """A job's secrets by its key, without a claim."""
    found = gate.ledger.connections(job, key)
    return {name: dict(port.secrets) for ports in found.values() for name, port in ports.items()}


# ---------------------------------------------------------------- access


def test_a_key_opens_the_inputs_and_outputs_of_its_job_and_no_others(worker: Gate, keys: Keys) -> None:
    claim = worker.ledger.find_next("clean", key=keys["clean"])
    assert secrets_of(claim) == {"raw": {"password": CANARY}, "tidy": {"password": OTHER}}
    assert opened(worker, "report", keys["report"]) == {"tidy": {"password": OTHER}, "rep": {}}
    for job, other in (("clean", "report"), ("report", "clean")):
        with pytest.raises(WrongKey):
            worker.ledger.connections(job, keys[other])


def test_without_a_key_they_are_masked_and_keys_open_opens_the_json(worker: Gate, keys: Keys) -> None:
    claim = claimed(worker.ledger, "clean")
    assert secrets_of(claim) == {"raw": {"password": MASKED}, "tidy": {"password": MASKED}}
    document = json.loads(claim.to_json())
    assert CANARY not in claim.to_json()
    found = open_document(document, keys["clean"])
    assert found["inputs"]["raw"]["secrets"] == {"password": CANARY}
    assert found["outputs"]["tidy"]["secrets"] == {"password": OTHER}
    assert "sealed" not in found["inputs"]["raw"]
    for wrong in (keys["report"], EVERY_KEY, "", "a passphrase"):
        with pytest.raises(WrongKey):
            open_document(document, wrong)
    with pytest.raises(WrongKey):
        open_document({**document, "job": "report"}, keys["report"])


ASKS: dict[str, Callable[[Gate, str], Any]] = {
    "find_next": lambda gate, key: gate.ledger.find_next("clean", key=key),
    "claim": lambda gate, key: gate.ledger.claim("clean", "2", key=key),
    "force": lambda gate, key: gate.ledger.force("clean", "2", reason="now", key=key),
    "work": lambda gate, key: next(iter(gate.ledger.work("clean", key=key))),
}


@pytest.mark.parametrize("ask", ASKS)
def test_with_a_wrong_key_nothing_is_claimed(worker: Gate, keys: Keys, ask: str) -> None:
    before = everything(worker)
    for wrong in (keys["report"], EVERY_KEY, "hgk_short", "no key at all", keys["clean"][:-2]):
        with pytest.raises(WrongKey) as refusal:
            ASKS[ask](worker, wrong)
        assert wrong not in str(refusal.value)
    assert everything(worker) == before
    assert ASKS[ask](worker, keys["clean"]).inputs["raw"].secrets == {"password": CANARY}


def test_a_job_without_a_key_accepts_no_key(admin: Gate, keys: Keys) -> None:
    admin.ledger.define_job("third", inputs=["raw"])
    with pytest.raises(WrongKey, match="keys new third"):
        admin.ledger.find_next("third", key=keys["clean"])
    assert secrets_of(admin.ledger.find_next("third", key="")) == {"raw": {"password": MASKED}}


def test_the_key_of_the_settings_is_used(gates: Gates, keys: Keys, tmp_path: Path) -> None:
    file = tmp_path / "clean.key"
    file.write_text(keys["clean"] + "\n")
    file.chmod(0o600)
    for settings in ({"job_key": keys["clean"]}, {"job_key_file": str(file)}):
        assert secrets_of(gates.open(**settings).ledger.find_next("clean"))["raw"] == {"password": CANARY}
    file.chmod(0o644)
    with pytest.raises(BadValue, match="chmod 600"):
        gates.open(job_key_file=str(file)).ledger.find_next("clean")


# ---------------------------------------------------------------- an attacker changes the store

Copies = dict[tuple[str, str], Sealed]


def copies(gate: Gate) -> Copies:
    """The stored copies for each dataset and job."""
    kept = gate.ledger.custody
    return {
        (each.dataset, job): each for job in ("clean", "report") for each in kept.job_custody(job).sealed if each.job
    }


def overwrite(gate: Gate, dataset: str, job: str, column: str, value: object) -> None:
    """Replace a column of a copy."""
    change(
        gate,
        f"update hg_credential set {column} = :value "  # noqa: S608 - our own names
        "where dataset_id = (select id from hg_dataset where name = :dataset)"
        " and job_id = (select id from hg_job where name = :job)",
        value=value, dataset=dataset, job=job,
    )  # fmt: skip


def put_into_raw(gate: Gate, source: Sealed, columns: tuple[str, ...] = ("wrap", "sealed")) -> None:
    """Replace clean's copy of raw's secret by another one."""
    for column in columns:
        overwrite(gate, "raw", "clean", column, getattr(source, column))


def flip(text: str, place: int) -> str:
    """The text with one letter changed."""
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


def another_version(gate: Gate, _found: Copies) -> None:
    overwrite(gate, "raw", "clean", "version", 2)
    change(gate, "update hg_dataset set secrets = :secrets where name = 'raw'", secrets='{"password": "2"}')


TAMPERINGS: dict[str, Callable[[Gate, Copies], None]] = {
    "another dataset's": lambda gate, found: put_into_raw(gate, found["tidy", "clean"]),
    "another dataset's secret": lambda gate, found: put_into_raw(gate, found["tidy", "clean"], ("sealed",)),
    "another dataset's key": lambda gate, found: put_into_raw(gate, found["tidy", "clean"], ("wrap",)),
    "another job's": lambda gate, found: put_into_raw(gate, found["tidy", "report"]),
    "another version": another_version,
    "a bit of the nonce": lambda gate, f: overwrite(gate, "raw", "clean", "sealed", flip(f["raw", "clean"].sealed, 0)),
    "a bit of the secret": lambda gate, f: overwrite(
        gate, "raw", "clean", "sealed", flip(f["raw", "clean"].sealed, 20)
    ),
    "a bit of the key": lambda gate, f: overwrite(gate, "raw", "clean", "wrap", flip(f["raw", "clean"].wrap, 5)),
    "a cut": lambda gate, f: overwrite(gate, "raw", "clean", "sealed", f["raw", "clean"].sealed[:12]),
    "nothing left": lambda gate, _: overwrite(gate, "raw", "clean", "sealed", ""),
    "gone": lambda gate, _: change(gate, "delete from hg_credential where job_id <> 0"),
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_altered_or_moved_secrets_do_not_decrypt_and_nothing_is_claimed(worker: Gate, keys: Keys, how: str) -> None:
    assert opened(worker, "clean", keys["clean"])["raw"] == {"password": CANARY}
    TAMPERINGS[how](worker, copies(worker))
    before = everything(worker)
    with pytest.raises(WrongKey, match="of raw") as refusal:
        worker.ledger.find_next("clean", key=keys["clean"])
    assert CANARY not in str(refusal.value)
    assert everything(worker) == before


def test_an_older_value_under_the_newer_version_does_not_open(admin: Gate, worker: Gate, keys: Keys) -> None:
    older = copies(worker)["raw", "clean"]
    admin.ledger.define_dataset("raw", secrets={"password": "newer"})
    put_into_raw(worker, older)
    with pytest.raises(WrongKey):
        opened(worker, "clean", keys["clean"])


def test_setting_a_secret_again_repairs_it(admin: Gate, worker: Gate, keys: Keys) -> None:
    change(admin, "update hg_credential set sealed = ''")
    with pytest.raises(WrongKey, match="Set it again"):
        worker.ledger.find_next("clean", key=keys["clean"])
    for name, secret in (("raw", CANARY), ("tidy", OTHER)):
        admin.ledger.define_dataset(name, secrets={"password": secret}, holders=HOLDERS)
    assert opened(worker, "clean", keys["clean"]) == {"raw": {"password": CANARY}, "tidy": {"password": OTHER}}


def test_the_escrow_of_one_job_is_not_accepted_for_another(admin: Gate, keys: Keys) -> None:
    """Otherwise the next secrets of the other job would be sealed for an attacker with one job's key."""
    look = "select master_wrap from hg_escrow e join hg_job j on j.id = e.job_id where j.name = 'report'"
    (stolen,) = database(admin).read(lambda tx: tx.one(Statement("Look.", look)))
    change(admin, "update hg_escrow set master_wrap = :stolen", stolen=stolen)
    with pytest.raises(Refused, match="cannot be sealed for job clean"):
        admin.ledger.define_dataset("raw", secrets={"password": "next"})


# ---------------------------------------------------------------- later changes


def test_a_secret_that_is_set_later_opens_with_existing_keys(admin: Gate, worker: Gate, keys: Keys) -> None:
    done = admin.ledger.define_dataset("raw", uri="db://raw", secrets={"password": "new", "user": "ann"})
    assert sorted(done.changes) == ["dataset raw: secret password changed", "dataset raw: secret user new"]
    assert admin.ledger.define_dataset("raw", uri="db://raw", secrets={"password": "new", "user": "ann"}).changes == ()
    assert opened(worker, "clean", keys["clean"])["raw"] == {"password": "new", "user": "ann"}
    assert admin.ledger.define_dataset("raw", uri="db://raw").changes == ()
    admin.ledger.define_dataset("raw", uri="db://raw", secrets={"user": "ann"})
    assert opened(worker, "clean", keys["clean"])["raw"] == {"user": "ann"}


def test_a_job_that_gains_an_input_opens_its_secrets_and_one_that_loses_it_does_not(
    admin: Gate, worker: Gate, keys: Keys
) -> None:
    admin.ledger.define_job("report", inputs=["tidy", "raw"], outputs=["rep"], holders=["raw/report"])
    assert opened(worker, "report", keys["report"])["raw"] == {"password": CANARY}
    admin.ledger.define_job("report", inputs=["tidy"], outputs=["rep"])
    look = "select count(*) from hg_credential c join hg_job j on j.id = c.job_id where j.name = 'report'"
    assert database(admin).read(lambda tx: tx.one(Statement("Look.", look)))[0] == 1


def test_an_input_gained_without_the_master_key_is_reported_and_repaired_with_it(
    admin: Gate, worker: Gate, keys: Keys
) -> None:
    done = worker.ledger.define_job("report", inputs=["tidy", "raw"], outputs=["rep"])
    assert any("cannot open secret password of raw yet" in line for line in done.warnings)
    with pytest.raises(WrongKey, match="define the job again"):
        worker.ledger.connections("report", keys["report"])
    again = admin.ledger.define_job("report", inputs=["tidy", "raw"], outputs=["rep"], holders=["raw/report"])
    assert again.changes == ()
    assert opened(worker, "report", keys["report"])["raw"] == {"password": CANARY}


def test_a_second_key_is_refused_or_valid_beside_the_first_until_that_is_retired(
    admin: Gate, worker: Gate, keys: Keys
) -> None:
    with pytest.raises(Refused, match="--beside"):
        admin.secrets.new_key("clean")
    second = admin.secrets.new_key("clean", beside=True)
    assert (second.generation, second.warnings) == (2, ())
    with pytest.raises(Refused, match="keys retire"):
        admin.secrets.new_key("clean", beside=True)
    masked = json.loads(claimed(worker.ledger, "clean").to_json())
    for key in (keys["clean"], second.key):
        assert opened(worker, "clean", key)["raw"] == {"password": CANARY}
        assert open_document(masked, key)["inputs"]["raw"]["secrets"] == {"password": CANARY}
    admin.ledger.define_dataset("raw", secrets={"password": "new"})
    assert opened(worker, "clean", keys["clean"]) == opened(worker, "clean", second.key)
    assert (admin.secrets.retire("clean"), admin.secrets.retire("clean")) == (1, 0)
    with pytest.raises(WrongKey):
        opened(worker, "clean", keys["clean"])
    assert opened(worker, "clean", second.key)["raw"] == {"password": "new"}


def test_a_lost_key_is_replaced_by_the_master_key(admin: Gate, worker: Gate, keys: Keys) -> None:
    new = admin.secrets.new_key("clean", lost=True)
    assert opened(worker, "clean", new.key)["raw"] == {"password": CANARY}
    with pytest.raises(WrongKey):
        opened(worker, "clean", keys["clean"])


def test_a_lost_key_without_the_master_key_loses_the_secrets_until_they_are_set_again(
    gates: Gates, worker: Gate
) -> None:
    worker.ledger.define_dataset("raw")
    worker.ledger.define_job("clean", inputs=["raw"])
    old = worker.secrets.new_key("clean").key
    gates.open(job_key=old).ledger.define_dataset("raw", secrets={"password": CANARY}, holders=HOLDERS)
    assert opened(worker, "clean", old) == {"raw": {"password": CANARY}}
    with pytest.raises(Refused, match="--lost"):
        worker.secrets.new_key("clean", beside=True)
    new = worker.secrets.new_key("clean", lost=True)
    assert len(new.warnings) == 1
    with pytest.raises(WrongKey, match="set the secret again"):
        opened(worker, "clean", new.key)
    gates.open(job_key=new.key).ledger.define_dataset("raw", secrets={"password": CANARY}, holders=HOLDERS)
    assert opened(worker, "clean", new.key) == {"raw": {"password": CANARY}}


def test_without_a_master_key_the_old_key_is_needed_for_the_next(gates: Gates, worker: Gate) -> None:
    worker.ledger.define_dataset("raw")
    worker.ledger.define_job("clean", inputs=["raw"])
    with pytest.raises(Refused, match="Create one of them"):
        worker.ledger.define_dataset("raw", secrets={"password": CANARY})
    old = worker.secrets.new_key("clean").key
    holder = gates.open(job_key=old)
    holder.ledger.define_dataset("raw", secrets={"password": CANARY}, holders=HOLDERS)
    new = holder.secrets.new_key("clean", beside=True).key
    assert opened(worker, "clean", new) == {"raw": {"password": CANARY}}
    worker.ledger.define_job("other", inputs=["raw"])
    worker.secrets.new_key("other")
    with pytest.raises(Refused, match="cannot be sealed for job"):
        holder.ledger.define_dataset("raw", secrets={"password": "next"})
    assert opened(worker, "clean", new) == {"raw": {"password": CANARY}}


def test_a_key_made_without_the_master_key_is_put_in_escrow_when_both_are_there(
    gates: Gates, worker: Gate, ring: Path
) -> None:
    worker.ledger.define_dataset("raw")
    worker.ledger.define_job("clean", inputs=["raw"])
    key = worker.secrets.new_key("clean").key
    both = gates.open(job_key=key, master_key_file=str(ring))
    both.secrets.rotate()
    both.ledger.define_job("clean", inputs=["raw"])
    admin = gates.open(master_key_file=str(ring))
    admin.ledger.define_dataset("raw", secrets={"password": CANARY}, holders=HOLDERS)
    assert opened(worker, "clean", key) == {"raw": {"password": CANARY}}


def test_a_passphrase_is_a_key_too(admin: Gate, worker: Gate, keys: Keys) -> None:
    words = "correct horse battery staple"
    assert admin.secrets.new_key("clean", passphrase=words, lost=True).key == words
    masked = json.loads(claimed(worker.ledger, "clean").to_json())
    assert open_document(masked, words)["inputs"]["raw"]["secrets"] == {"password": CANARY}
    assert opened(worker, "clean", words)["raw"] == {"password": CANARY}
    with pytest.raises(WrongKey):
        opened(worker, "clean", words + "!")
    with pytest.raises(BadValue, match="short") as refusal:
        admin.secrets.new_key("report", passphrase="short", lost=True)
    assert "'short'" not in str(refusal.value)


# ---------------------------------------------------------------- concurrent changes


def after_the_proof(worker: Gate, change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A change after the worker's key is verified and before it claims a chunk."""
    real, proofs = worker.secrets.open, 0

    def open_secrets(job: str, key: str) -> Opened:
        nonlocal proofs
        opened, proofs = real(job, key), proofs + 1
        if proofs == 1:
            change()
        return opened

    monkeypatch.setattr(worker.secrets, "open", open_secrets)


def test_a_secret_set_between_check_and_claim_has_its_new_value_in_the_claim(
    admin: Gate, worker: Gate, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        admin.ledger.define_dataset("raw", secrets={"password": "newer"})

    after_the_proof(worker, change, monkeypatch)
    assert secrets_of(worker.ledger.find_next("clean", key=keys["clean"]))["raw"] == {"password": "newer"}


def test_a_key_retired_between_check_and_claim_keeps_no_chunk(
    admin: Gate, worker: Gate, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        admin.secrets.new_key("clean", lost=True)
        admin.ledger.define_dataset("raw", secrets={"password": "newer"})

    after_the_proof(worker, change, monkeypatch)
    with pytest.raises(WrongKey):
        worker.ledger.find_next("clean", key=keys["clean"])
    assert [row.status for row in worker.ledger.status(job="clean", kind="OUTPUT")] == ["ERROR"]


def test_a_key_that_is_made_while_a_secret_is_being_set_opens_it(
    gates: Gates, admin: Gate, keys: Keys, ring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change planned on an old view is refused by the store, and planned again."""
    other, store = gates.open(master_key_file=str(ring)), admin.ledger.custody
    write = store.change_custody
    made: list[str] = []
    answers: list[bool] = []

    def late(known: Custody, wanted: CustodyChange) -> bool:
        if not made:
            made.append(other.secrets.new_key("clean", beside=True).key)
        answers.append(write(known, wanted))
        return answers[-1]

    monkeypatch.setattr(store, "change_custody", late)
    admin.ledger.define_dataset("raw", secrets={"password": "newer"})
    assert answers == [False, True]
    for key in (keys["clean"], *made):
        assert opened(other, "clean", key)["raw"] == {"password": "newer"}


def test_keys_and_secrets_that_are_created_at_the_same_time_fit_each_other(
    gates: Gates, admin: Gate, ring: Path
) -> None:
    """The later one sees the earlier one's work: no job is left without a copy, none with an old one."""
    admin.ledger.define_dataset("raw", secrets={"password": "0"})
    jobs = [f"job{number}" for number in range(3)]
    for job in jobs:
        admin.ledger.define_job(job, inputs=["raw"])
    made = [in_thread(partial(_make, gates.open(master_key_file=str(ring)), job)) for job in jobs]
    changed = [in_thread(partial(_set, gates.open(master_key_file=str(ring)), to)) for to in ("1", "2", "3")]
    keys = [each.result(60) for each in made]
    assert [each.result(60) for each in changed] == ["1", "2", "3"]
    values = [opened(admin, job, key)["raw"]["password"] for job, key in zip(jobs, keys, strict=True)]
    assert len(set(values)) == 1
    assert values[0] in ("1", "2", "3")


def _make(gate: Gate, job: str) -> str:
    return gate.secrets.new_key(job, holders=[f"raw/{job}"]).key


def _set(gate: Gate, secret: str) -> str:
    gate.ledger.define_dataset("raw", secrets={"password": secret}, holders=[f"raw/job{each}" for each in range(3)])
    return secret


# ---------------------------------------------------------------- messages


def test_neither_claims_nor_datasets_show_a_secret(admin: Gate, worker: Gate, keys: Keys) -> None:
    claim = worker.ledger.find_next("clean", key=keys["clean"])
    assert claim
    shown = repr(claim) + repr(admin.ledger.datasets()) + repr([each.to_document() for each in admin.ledger.datasets()])
    shown += repr(admin.ledger.custody.job_custody("clean")) + repr(worker.secrets.open("clean", keys["clean"]))
    for secret in (CANARY, OTHER, keys["clean"]):
        assert secret not in shown
    assert CANARY in claim.to_json()


def test_a_secret_in_a_failed_workers_message_is_masked(worker: Gate, keys: Keys) -> None:
    claim = worker.ledger.find_next("clean", key=keys["clean"])
    assert claim
    worker.ledger.fail(claim, f"cannot log in as ann:{CANARY}@db, base64 {b64encode(CANARY.encode()).decode()}")
    (row,) = worker.ledger.status(job="clean", kind="OUTPUT")
    assert row.message == "cannot log in as ann:***@db, base64 ***"


def test_a_bad_secret_is_refused_without_being_shown(admin: Gate, keys: Keys) -> None:
    before = opened(admin, "clean", keys["clean"])
    bad: list[Any] = ["text", {"a": 1}, {"a": ""}, {"": "x"}, {"a/b": "x"}, {"x": "y" * 10_001}]
    for secrets in bad:
        with pytest.raises(BadValue) as refusal:
            admin.ledger.define_dataset("raw", secrets=secrets)
        assert "yyy" not in str(refusal.value)
    assert opened(admin, "clean", keys["clean"]) == before


@pytest.mark.parametrize(
    "document", [[], "x", {}, {"job": 1}, {"job": "j", "inputs": []}, {"job": "j", "inputs": {"a": 1}}]
)
def test_a_document_that_is_not_a_claim_is_refused(document: Any) -> None:
    with pytest.raises(headgate.BadValue):
        open_document(document, EVERY_KEY)
