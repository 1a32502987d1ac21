"""Keys and secrets on the command line: who sees them, and the exit codes."""

import json

import pytest

from tests.security.site import Site


@pytest.fixture
def kind() -> str:
    """The behaviour of each store is tested elsewhere; here one is enough."""
    return "sqlite"


def test_scripts_of_other_languages_open_the_claim_themselves(site: Site) -> None:
    claim = site.run("job", "next", "clean", "--json")
    assert json.loads(claim)["inputs"]["raw"]["secrets"] == {"pass-word": "***"}
    (site.folder / "claim.json").write_text(claim)
    by_pipe = site.command("keys", "open", stdin=claim, HEADGATE_JOB_KEY=site.key)
    by_file = site.command("keys", "open", "claim.json", "--url", "sqlite:////nowhere/x", HEADGATE_JOB_KEY=site.key)
    assert by_pipe.json["inputs"]["raw"]["secrets"] == {"pass-word": site.canary}
    assert by_pipe.out == by_file.out
    for document, key, code in ((claim, "hgk_x", 77), (claim, "", 77), ("{", site.key, 2), ("[]", site.key, 2)):
        done = site.command("keys", "open", stdin=document, HEADGATE_JOB_KEY=key)
        assert (done.code, done.out) == (code, "")


def test_the_command_is_passed_no_key_and_secrets_as_variables_only_on_request(site: Site) -> None:
    show = ["--", "sh", "-c", "tr '\\0' '\\n' </proc/self/environ"]
    keys = {"HEADGATE_JOB_KEY": site.key, **site.ring}
    plain = site.command("job", "run", "clean", *show, **keys)
    assert plain.code == 0, plain.err
    assert "HEADGATE_INPUT_RAW_URI=db://raw" in plain.out.splitlines()
    assert site.found_in(plain.out.encode()) == []
    assert "KEY" not in plain.out
    asked = site.command("job", "run", "clean", "--secrets-in-env", *show, **keys)
    assert f"HEADGATE_INPUT_RAW_SECRET_PASS_WORD={site.canary}" in asked.out.splitlines()
    assert site.key not in asked.out


def test_with_a_wrong_key_nothing_is_run(site: Site) -> None:
    for more in ([], ["--loop"], ["--dataid", "2"]):
        done = site.command("job", "run", "clean", *more, "--", "touch", "ran", HEADGATE_JOB_KEY="hgk_" + "A" * 43)
        assert done.code == 77
        assert "the key does not belong to this job" in done.err
    assert not (site.folder / "ran").exists()
    assert [row["kind"] for row in json.loads(site.run("data", "list", "--json"))["items"]] == ["OUTPUT"] * 5


@pytest.mark.parametrize("place", ["hunter2", "env:NOT_SET", "file:/not/there"])
def test_a_secret_in_a_pipeline_file_is_refused(site: Site, place: str) -> None:
    (site.folder / "other.toml").write_text(f'[dataset.raw]\n[dataset.raw.secrets]\npassword = "{place}"\n')
    done = site.command("define", "other.toml", **site.ring)
    assert (done.code, "hunter2" in done.err) == (2, False)


def test_keys_are_derived_from_a_passphrase_on_standard_input(site: Site) -> None:
    words = "correct horse battery staple"
    done = site.command("keys", "new", "clean", "--lost", "--passphrase", stdin=words + "\n", **site.ring)
    assert (done.code, words in done.out + done.err) == (0, False)
    found = site.command("job", "connections", "clean", "--json", HEADGATE_JOB_KEY=words).json
    assert found["inputs"]["raw"]["secrets"] == {"pass-word": site.canary}


def test_the_ring_of_another_store_is_refused_with_77(site: Site) -> None:
    file = site.folder / "foreign"
    file.write_text(f"v1:{'a' * 42}A\nv2:{'b' * 42}A\n")
    file.chmod(0o600)
    foreign = {"HEADGATE_MASTER_KEY_FILE": str(file)}
    for words in (("define", "pipeline.toml"), ("keys", "rewrap"), ("keys", "new", "clean", "--beside")):
        done = site.command(*words, RAW_PASSWORD=site.canary, **foreign)
        assert done.code == 77
        assert "ring of another store" in done.err
        assert "Traceback" not in done.err
    lost = site.command("keys", "rotate", HEADGATE_MASTER_KEY_FILE=str(site.folder / "new"))
    assert lost.code == 77
    assert "Restore the ring from its backup" in lost.err
