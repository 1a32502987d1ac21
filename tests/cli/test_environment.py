"""The environment of commands, and what a job's definition may add to it."""

import os
import sys

import pytest

from headgate.cli.processes.environment import for_daemon_command
from headgate.core.errors import BadValue
from headgate.core.known_settings import KNOWN
from headgate.core.values.variables import NO_MORE, NamePatterns, check_job_variables, parse_patterns
from headgate.settings import load
from tests.cli.commands import Headgate
from tests.contract.ledger_steps import RUNS_CODE

PIPELINE = """
[dataset.raw]
[dataset.tidy]
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
[job.clean.environment]
PARAM_REGION = "eu"
"""
#: Our variables, with those that must not reach a command, and the caller's, without which it would not run.
OURS = {
    "HEADGATE_API_TOKEN": "canary-1", "HEADGATE_JOB_KEY": "", "HEADGATE_MAIL_PASSWORD": "canary-2",
    "HEADGATE_MINTER_KEY": "canary-3", "HEADGATE_MASTER_KEY_FILE": "canary-4", "HEADGATE_JOB_KEY_FILE": "",
}  # fmt: skip
CALLERS = {
    "LD_LIBRARY_PATH": "/opt/cuda/lib64", "SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0", "OMPI_MCA_btl": "self",
    "MODULEPATH": "/opt/modules", "BASH_FUNC_module%%": "() { eval 1; }", "PYTHONUNBUFFERED": "1",
}  # fmt: skip
ENVIRONMENT = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]


def test_a_command_gets_the_callers_environment_without_our_secrets(headgate: Headgate) -> None:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    headgate("data", "publish", "raw", "1..2")
    for words in (["lock", "run", "db"], ["job", "run", "clean"]):
        got = headgate(*words, "--", *ENVIRONMENT, **OURS, **CALLERS).json
        assert CALLERS.items() <= got.items()
        assert [name for name in got if name in OURS] == []
        assert "canary" not in str(got)
    got = headgate("lock", "run", "db", "--pass-api-token", "--", *ENVIRONMENT, **OURS).json
    assert (got["HEADGATE_API_TOKEN"], "HEADGATE_MAIL_PASSWORD" in got) == ("canary-1", False)


def test_every_secret_setting_is_withheld() -> None:
    from headgate.cli.processes.environment import withheld

    secret = {known.variable for known in KNOWN if known.secret}
    assert secret <= set(withheld(pass_api_token=False))
    assert secret - set(withheld(pass_api_token=True)) == {"HEADGATE_API_TOKEN"}


def test_a_worker_checks_a_jobs_variables_again(headgate: Headgate) -> None:
    """Whatever the job defines, the worker's owner decides."""
    (headgate.folder / "pipeline.toml").write_text(PIPELINE.replace("PARAM_REGION", "BASH_ENV"))
    refused = headgate("define", "pipeline.toml")
    assert (refused.code, "PARAM_BASH_ENV" in refused.err, "job_variables" in refused.err) == (2, True, True)
    assert headgate("define", "pipeline.toml", HEADGATE_JOB_VARIABLES="BASH_*").code == 0
    headgate("data", "publish", "raw", "1..2")
    ran = headgate.folder / "ran"
    done = headgate("job", "run", "clean", "--loop", "--", "touch", str(ran))
    assert (done.code, "on this worker" in done.err, ran.exists()) == (2, True, False)
    rows = headgate("data", "list", "--dataset", "tidy", "--json").json["items"]
    assert [(row["dataid"], row["status"]) for row in rows] == [("1", "ERROR")]
    assert "BASH_ENV" in rows[0]["message"]
    got = headgate("job", "run", "clean", "--", *ENVIRONMENT, HEADGATE_JOB_VARIABLES="OMP_*, BASH_ENV").json
    assert got["BASH_ENV"] == "eu"


def test_a_job_cannot_set_a_variable_that_runs_code() -> None:
    for name in RUNS_CODE:
        with pytest.raises(BadValue):
            check_job_variables({name: "x"}, NO_MORE, "here")
    for ours in ("HEADGATE_URL", "HEADGATE_DATAID"):
        with pytest.raises(BadValue):
            check_job_variables({ours: "x"}, parse_patterns(ours), "here")
    check_job_variables({"PARAM_REGION": "eu", "OMP_NUM_THREADS": "4"}, parse_patterns("TZ, OMP_*"), "here")


@pytest.mark.parametrize("text", ["*", "_*", "P*", "A B=", "A-B", "LD_**", "PÄTH", "A\nB C*"])
def test_names_that_would_allow_too_much_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="lists"):
        parse_patterns(text)


def test_a_daemons_command_gets_a_short_list(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {**OURS, "AWS_SECRET_ACCESS_KEY": "canary", "PGPASSWORD": "canary", "LD_PRELOAD": "x", "MY_MODE": "fast"}
    usual = {"PATH": "/bin", "HOME": "/home/x", "LC_TIME": "C", "TZ": "UTC"}
    store = {"HEADGATE_URL": "postgresql://me:canary@db/x", "HEADGATE_SERVER": ""}
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**secret, **usual, **store}.items():
        monkeypatch.setenv(name, value)
    got = for_daemon_command(load(), {})
    assert got == {**usual, "HEADGATE_URL": "postgresql://me:***@db/x", "HEADGATE_SERVER": ""}
    added = {"exec_variables": "HEADGATE_URL, MY_*"}
    assert for_daemon_command(load(added), {"HEADGATE_URL": "sqlite:///flag.db"}) == {
        **usual, "MY_MODE": "fast", "HEADGATE_URL": "sqlite:///flag.db", "HEADGATE_SERVER": "",
    }  # fmt: skip
    assert "LC_ALL" in NamePatterns.of(["LC_*"])
