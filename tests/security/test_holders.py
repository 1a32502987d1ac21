"""No job becomes a holder of a dataset's secrets unless an admin confirms it, no matter who defines jobs."""

import os
import pty
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from headgate import BadValue, Gate, Refused
from headgate.core.access.credentials import CustodyChange, Sealed
from headgate.core.errors import HoldersUnconfirmed
from headgate.core.values.redaction import MASKED
from headgate.service.secrets.use_cases import open_document
from tests.cli.commands import PROGRAM
from tests.contract.ledger_steps import claimed
from tests.security.conftest import CANARY, OTHER
from tests.security.site import PIPELINE, Site

Keys = dict[str, str]
WANTED: Any = {"inputs": ["tidy", "raw"], "outputs": ["rep"]}


def copies(gate: Gate, job: str) -> list[str]:
    """The datasets of which a job has sealed copies."""
    return sorted({copy.dataset for copy in gate.ledger.custody.job_custody(job).sealed if copy.job == job})


def test_a_job_that_an_attacker_extended_gets_no_secret_at_the_next_define(
    admin: Gate, worker: Gate, keys: Keys
) -> None:
    """An attacker with a job's key who may define jobs: the job reads too much, and the admin defines all again."""
    worker.ledger.define_job("report", **WANTED)
    for define in (
        lambda: admin.ledger.define_job("report", **WANTED),
        lambda: admin.ledger.define_dataset("raw", uri="db://raw", secrets={"password": CANARY}),
        lambda: admin.ledger.define_dataset("raw", uri="db://raw", secrets={"password": "changed"}),
        lambda: admin.secrets.new_key("report", beside=True),
        lambda: admin.secrets.new_key("report", lost=True),
    ):
        with pytest.raises(HoldersUnconfirmed) as refused:
            define()
        assert refused.value.holders == ("raw/report",)
        assert "--new-holder raw/report" in str(refused.value)
    assert copies(admin, "report") == ["tidy"]
    assert {key.generation for key in admin.ledger.custody.job_custody("report").keys} == {1}
    with pytest.raises(HoldersUnconfirmed):
        admin.ledger.define_job("report", **WANTED, holders=["raw/clean", "tidy/report"])
    admin.ledger.define_job("report", **WANTED, holders=["raw/report"])
    assert worker.ledger.connections("report", keys["report"])["inputs"]["raw"].secrets == {"password": CANARY}
    assert admin.ledger.define_job("report", **WANTED).changes == ()


def test_a_job_is_not_defined_while_a_new_holder_is_unconfirmed(admin: Gate, keys: Keys) -> None:
    with pytest.raises(HoldersUnconfirmed):
        admin.ledger.define_job("report", **WANTED)
    assert admin.ledger.job("report")[0].inputs == ("tidy",)


def test_a_planted_copy_makes_no_job_a_holder(admin: Gate, worker: Gate, keys: Keys) -> None:
    """A user who may define can write copies and confirm them; only copies that the ring sealed prove something."""
    worker.ledger.define_job("report", **WANTED)
    store = worker.ledger.custody
    custody = store.job_custody("report")
    mine = next(copy for copy in custody.sealed if copy.job == "report")
    planted = [replace(mine, dataset="raw"), Sealed("raw", "password", "report", 1, 1, "x" * 40, "y" * 60)]
    for copy in planted:
        assert store.change_custody(store.job_custody("report"), CustodyChange([copy], holders=["raw/report"]))
        with pytest.raises(HoldersUnconfirmed):
            admin.ledger.define_dataset("raw", uri="db://raw", secrets={"password": "changed"})


def test_the_store_accepts_exactly_the_confirmed_holders(admin: Gate, keys: Keys) -> None:
    admin.ledger.define_job("report", **WANTED, share=False)
    store = admin.ledger.custody
    known = store.job_custody("report")
    copy = Sealed("raw", "password", "report", 1, 1, "x" * 40, "y" * 60)
    with pytest.raises(HoldersUnconfirmed) as refused:
        store.change_custody(known, CustodyChange([copy]))
    assert refused.value.holders == ("raw/report",)
    for wrong in (["raw/report", "raw/clean"], ["raw/report", "tidy/report"]):
        with pytest.raises(BadValue, match="does not make it a holder"):
            store.change_custody(known, CustodyChange([copy], holders=wrong))
    assert store.job_custody("report") == known
    assert store.change_custody(known, CustodyChange([copy], holders=["raw/report"]))


def test_a_dataset_lists_the_jobs_that_may_hold_its_secrets(admin: Gate, worker: Gate, keys: Keys) -> None:
    tidy: Any = {"secrets": {"password": OTHER}, "secret_jobs": ["clean"]}
    done = admin.ledger.define_dataset("tidy", **tidy)
    assert done.changes == ("dataset tidy: secret_jobs any → clean",)
    assert (copies(admin, "clean"), copies(admin, "report")) == (["raw", "tidy"], [])
    assert admin.ledger.define_dataset("tidy", **tidy).changes == ()
    admin.ledger.define_dataset("tidy", **{**tidy, "secrets": {"password": "changed"}})
    assert admin.secrets.new_key("report", beside=True).warnings == ()
    admin.ledger.define_job("report", inputs=["tidy"], outputs=["rep"], holders=["tidy/report"])
    assert copies(admin, "report") == []
    (found,) = [each for each in worker.ledger.datasets() if each.name == "tidy"]
    assert found.to_document()["secret_jobs"] == ["clean"]
    # The job works, with its secrets masked, with a key and without; the other one opens them.
    worker.ledger.success(claimed(worker.ledger, "clean"))
    claim = worker.ledger.find_next("report", key=keys["report"])
    assert claim is not None
    assert claim.inputs["tidy"].secrets == {"password": MASKED}
    assert open_document(claim.to_document(), keys["report"])["inputs"]["tidy"]["secrets"] == {"password": MASKED}
    assert worker.ledger.connections("clean", keys["clean"])["outputs"]["tidy"].secrets == {"password": "changed"}
    copy = Sealed("tidy", "password", "report", 1, 2, "x" * 40, "y" * 60)
    store = worker.ledger.custody
    with pytest.raises(Refused, match="secret_jobs"):
        store.change_custody(store.job_custody("report"), CustodyChange([copy], holders=["tidy/report"]))
    # Without the list, it has to be confirmed again.
    with pytest.raises(HoldersUnconfirmed):
        admin.ledger.define_dataset("tidy", secrets={"password": "changed"})
    with pytest.raises(BadValue):
        admin.ledger.define_dataset("tidy", secret_jobs="clean")


@pytest.mark.parametrize("kind", ["sqlite"])
def test_the_command_asks_before_a_job_gets_secrets(site: Site) -> None:
    """One more line in the pipeline file: refused without a terminal, with the list of new holders."""
    site.run("keys", "new", "spy", code=2, **site.ring)
    more = PIPELINE + '[dataset.loot]\n[job.spy]\noutputs = ["loot"]\n'
    (site.folder / "pipeline.toml").write_text(more)
    site.define()
    site.run("keys", "new", "spy", **site.ring)
    (site.folder / "pipeline.toml").write_text(more + 'inputs = ["raw"]\n')
    told = {"RAW_PASSWORD": site.canary, **site.ring}
    refused = site.command("define", "pipeline.toml", **told)
    assert (refused.code, refused.out) == (75, "")
    assert "new holder: job spy can read the secrets of dataset raw" in refused.err
    assert "--new-holder raw/spy" in refused.err
    assert site.command("define", "pipeline.toml", "--json", **told).error["holders"] == ["raw/spy"]
    assert [
        each["inputs"] for each in site.command("job", "list", "--json").json["items"] if each["name"] == "spy"
    ] == [[]]
    assert on_terminal(site, "n\n", **told) == 75
    assert on_terminal(site, "y\n", **told) == 0
    assert site.command("define", "pipeline.toml", **told).out == "nothing changed: everything is defined already\n"
    (site.folder / "pipeline.toml").write_text(more)
    site.define()
    (site.folder / "pipeline.toml").write_text(more + 'inputs = ["raw"]\n')
    assert site.command("define", "pipeline.toml", "--new-holder", "raw/clean", **told).code == 75
    assert site.command("define", "pipeline.toml", "--new-holder", "raw/spy", **told).code == 0


def on_terminal(site: Site, answer: str, **told: str) -> int:
    """`define` at a terminal, where a user types the answer. Returns the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "define", "pipeline.toml"], cwd=site.folder, env=site.command.environment(**told), stdin=theirs,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, answer.encode())
    _, said = process.communicate(timeout=60)
    os.close(ours)
    assert b"Do you want this?" in said
    return process.returncode
