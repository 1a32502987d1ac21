"""Without the packages of an extra, every command that needs them names the extra; no other command needs them."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import headgate
from tests.contract.test_inventory import ARK, VERSION
from tests.moving.test_backup import backup
from tests.waiting import PATIENT

ROOT = Path(__file__).parents[2]
#: The modules of each extra, as the package imports them.
MODULES = {
    "postgresql": ["psycopg"],
    "mysql": ["pymysql"],
    "zookeeper": ["kazoo"],
    "secrets": ["cryptography"],
    "ingest": ["httpcore2", "httpx2", "lxml"],
    "s3": ["obstore"],
    "service": ["fastapi", "httpx2", "jinja2", "prometheus_client", "uvicorn"],
}
#: Stores that need a driver; no server is listening there.
STORES = {
    "postgresql": "postgresql://me@127.0.0.1:1/x",
    "mysql": "mysql://me@127.0.0.1:1/x",
    "zookeeper": "zookeeper://127.0.0.1:1/x",
}
SERVICE = "http://127.0.0.1:1"
PIPELINE = '[dataset.raw]\n[dataset.raw.secrets]\npassword = "env:HOME"\n'
PROFILE = """collection = "maps"
owner = "library"
[minter]
shoulder = "ark:/99999/fk4"
[storage]
kind = "s3"
url = "s3://bucket/x"
"""
#: Runs each command in one process, without some modules: its output and exit code.
RUN = """
import io, json, os, sys, traceback
modules, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name in modules:
    sys.modules[name] = None
from contextlib import redirect_stderr, redirect_stdout
from headgate.cli.main import main
found = []
for words in commands:
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        try:
            code = main(list(words))
        except BaseException as error:
            said.write(traceback.format_exc())
            code = -1
    found.append([code, said.getvalue()])
print(json.dumps(found))
"""


def store_commands(url: str) -> list[list[str]]:
    at = ["--url", url]
    return [
        ["lock", "list", *at], ["lock", "acquire", "x", *at], ["lock", "run", "x", *at, "--", "true"], ["status", *at],
        ["history", *at], ["job", "next", "clean", *at], ["define", "pipeline.toml", *at],
        ["ingest", "batches", *at], ["doctor", *at], ["token", "list", *at], ["keys", "rotate", *at],
        ["daemon", "reaper", "--once", *at], ["up", "--once", *at],
        ["copy", "sqlite:///here.db", url], ["copy", url, "sqlite:///new.db"],
    ]  # fmt: skip


def sql_commands(url: str) -> list[list[str]]:
    at = ["--url", url]
    return [["migrate", *at], ["backup", "new.gz", *at], ["restore", "here.gz", *at]]


def needing(extra: str) -> list[list[str]]:
    """Commands that need the extra."""
    if extra in STORES:
        elsewhere = [["lock", "list", "--coordination-url", STORES[extra]]] if extra == "zookeeper" else []
        return [*store_commands(STORES[extra]), *(sql_commands(STORES[extra]) if extra != "zookeeper" else elsewhere)]
    return {
        "secrets": [["keys", "rotate"], ["keys", "new", "clean"], ["define", "pipeline.toml"],
                    ["keys", "rewrap"], ["keys", "open", "claim.json"]],
        "ingest": [["ingest", "verify"], ["ingest", "export", ARK, "out"], ["daemon", "job-pending"]],
        "s3": [["ingest", "verify"], ["ingest", "export", ARK, "out"]],
        "service": [["up", "--once"]],
    }[extra]  # fmt: skip


#: Commands that need no extra at all.
PLAIN = [
    ["lock", "list"], ["lock", "run", "x", "--", "true"], ["status"], ["history"], ["doctor"], ["settings"],
    ["data", "list"], ["job", "list"], ["token", "list"], ["ingest", "batches"], ["ingest", "jobs"], ["migrate"],
    ["daemon", "reaper", "--once"], ["completion", "bash"],
]  # fmt: skip


def run(extra: str, folder: Path, commands: list[list[str]]) -> list[tuple[int, str]]:
    environment = {
        **PATIENT, "PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8",
        "HEADGATE_URL": f"sqlite:///{folder}/here.db", "HEADGATE_MASTER_KEY_FILE": "ring",
        "HEADGATE_PROFILES_FOLDER": "profiles", "HEADGATE_JOB_KEY": "hgk_x",
    }  # fmt: skip
    words = [sys.executable, "-c", RUN, json.dumps(MODULES[extra]), json.dumps(commands)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout.splitlines()[-1])]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store, its backup, a pipeline with a secret, and a profile that stores in a bucket."""
    url = f"sqlite:///{tmp_path / 'here.db'}"
    with headgate.connect(url) as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.define_job("clean", inputs=["raw"])
        gate.inventory.record(VERSION, [])
    backup(url, tmp_path / "here.gz")
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "claim.json").write_text(
        '{"job": "clean", "inputs": {"raw": {"sealed": {"password": "hg1.1..1.a.b"}}}}'
    )
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "demo.toml").write_text(PROFILE)
    return tmp_path


def test_there_is_a_case_for_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(MODULES) == set(extras) - {"all", "bench"}


@pytest.mark.parametrize("extra", MODULES)
def test_a_missing_extra_is_named_by_every_command_that_needs_it(extra: str, folder: Path) -> None:
    needing_it = needing(extra)
    found = run(extra, folder, [*PLAIN, *needing_it])
    problems = []
    for words, (code, said) in zip([*PLAIN, *needing_it], found, strict=True):
        named = f'pip install "headgate[{extra}]"' in said
        if "Traceback" in said or (named and words in PLAIN) or (words in needing_it and (code, named) != (2, True)):
            problems.append((words, code, said[-600:]))
    assert problems == []
    assert not (folder / "new.db").exists()
