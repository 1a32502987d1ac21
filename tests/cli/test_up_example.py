"""`headgate up --example`: the first impression of a new user, as an installed program, and what may prevent it from
starting.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Headgate, Result
from tests.docs.pages import blocks_of
from tests.users import rights
from tests.waiting import until

ROOT = Path(__file__).parents[2]
ONCE = ("up", "--example", "--once", "--listen", "127.0.0.1:0", "--lease", "3")


def words(*more: str) -> list[str]:
    return [sys.executable, "-m", "headgate", *more]


def run(folder: Path, *more: str) -> Result:
    return Headgate("", folder)(*more)


def in_example(folder: Path, *more: str) -> Any:
    done = run(folder / "headgate-example", *more, "--json")
    assert done.code == 0, done.err
    return done.json


#: The last line of a successful example.
GOOD_END = "Everything else worked."


@contextmanager
def living(folder: Path, *more: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """An example that keeps running after its announcement; and all of its output."""
    command = words("up", "--example", "--listen", "127.0.0.1:0", "-q", *more)
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            said = ""
            for line in process.stdout:
                said += line
                if line == GOOD_END + "\n":
                    break
            assert said.endswith(GOOD_END + "\n"), (said, process.communicate())
            yield process, said
        finally:
            process.kill()


def commands_in(said: str) -> list[str]:
    """The commands that the example prints for its user."""
    return [line.strip() for line in said.splitlines() if re.match(r"  cd | {5}\S", line)]


def type_what_the_readme_shows(folder: Path) -> None:
    """The output that README shows after `make run`, in a fresh shell that does not know `headgate`."""
    (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
    blocks = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
    (shown,) = (block.content for block in blocks if "cd headgate-example" in block.content)
    fresh = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    command = ["sh", "-e", "-c", shown]
    done = subprocess.run(command, cwd=folder, env=fresh, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "harbour" in done.stdout
    assert "jid" in done.stdout


def test_the_installed_program_runs_the_example_and_does_nothing_twice(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    # Settings from elsewhere do not apply to the example.
    other = {
        "PYTHONPATH": str(tmp_path / "installed"),
        "HEADGATE_URL": "sqlite:////nowhere/x.db",
        "HEADGATE_SERVER": "x",
    }
    run_installed = partial(
        subprocess.run,
        cwd=tmp_path,
        env={**os.environ, **other},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        umask=0,
    )
    first = run_installed(words(*ONCE))
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, GOOD_END), first.stdout + first.stderr
    for told in (
        "tides.csv",
        "job count: 1 ERROR, 3 READY",
        "shared by example",
        "is held: the attic is being listed",
        "3 things are wrong on purpose",
        "Then start the example again",
    ):
        assert told in first.stdout
    assert "all well" not in first.stdout
    type_what_the_readme_shows(tmp_path)
    second = run_installed(words(*ONCE, "--json"))
    found = json.loads(second.stdout.splitlines()[-1])
    assert (found["well"], len(found["objects"]), len(found["batches"])) == (True, 4, 4)
    assert found["chunks"] == {"count": {"READY": 3, "ERROR": 1}, "longest": {"READY": 3}}
    listed = in_example(tmp_path, "ingest", "objects")["items"]
    assert [each["version"] for each in listed] == [1, 1, 1, 1]
    assert len(in_example(tmp_path, "ingest", "batches")["items"]) == 4
    made = list((tmp_path / "headgate-example").rglob("*"))
    assert len(made) > 50
    assert {
        str(path): oct(mode) for path in made if (mode := rights(path)) != (0o700 if path.is_dir() else 0o600)
    } == {}
    assert rights(tmp_path / "headgate-example") == 0o700


def test_a_killed_start_is_continued_by_the_next_one(tmp_path: Path) -> None:
    with subprocess.Popen(words(*ONCE, "-q"), cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        stored = tmp_path / "headgate-example" / "headgate-storage"
        until(lambda: any(stored.glob("*/*")), "something is stored")
        process.kill()
    again = run(tmp_path, *ONCE, "--json")
    found = json.loads(again.out.splitlines()[-1])
    assert (again.code, found["problems"], len(found["objects"])) == (0, [], 4)


def test_the_example_keeps_running_and_a_second_one_is_refused(tmp_path: Path) -> None:
    with living(tmp_path) as (process, said):
        assert [each["client"] for each in in_example(tmp_path, "lock", "list")["items"]] == ["example"]
        twice = run(tmp_path, *ONCE)
        assert (twice.code, "is running already" in twice.err) == (75, True)
        letter = tmp_path / "letter.txt"
        letter.write_text("Sir, the lamp burns again.\n")
        more = ("--profile", "harbour", "--submitter", "me", "--type", "file")
        in_example(tmp_path, "ingest", "submit", str(letter), *more)
        counted = ("data", "list", "--dataset", "harbour_longest")
        until(lambda: len(in_example(tmp_path, *counted)["items"]) == 4, "the pipeline has made it too", 60)
        # The commands that it prints, in a shell without knowledge of this one.
        typed = "\n".join(["set -e", *commands_in(said)])
        bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        done = subprocess.run(
            ["sh", "-c", typed], cwd="/", env=bare, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: len(in_example(tmp_path, *counted)["items"]) == 6, "what was repaired is counted too", 60)
        until(lambda: not in_example(tmp_path, "ingest", "jobs", "--state", "failed")["items"], "nothing failed")
        assert in_example(tmp_path, "ingest", "holds")["items"] == []
        assert in_example(tmp_path, "data", "list", "--status", "READY", "--dataset", "harbour_words")["items"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "up", "--example", "--listen", f"127.0.0.1:{port}")
    assert (done.code, f"127.0.0.1:{port}" in done.err, "in use" in done.err) == (2, True, True)


@pytest.mark.parametrize("place", ["a file is there", "nobody may write here"])
def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, place: str) -> None:
    if place == "a file is there":
        (tmp_path / "headgate-example").write_text("")
    done = run(tmp_path if place == "a file is there" else Path("/proc/self"), *ONCE)
    assert done.code == 2
    assert " cannot be used for the example: " in done.err
    assert "Traceback" not in done.err


def test_a_store_of_another_version_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "headgate-example"
    folder.mkdir()
    run(tmp_path, "status", "--url", f"sqlite:///{folder / 'headgate.db'}")
    with closing(sqlite3.connect(folder / "headgate.db")) as store, store:
        store.execute("update hg_schema set version_num = ?", ("9999",))
    done = run(tmp_path, *ONCE)
    assert (done.code, "has schema 9999" in done.err) == (2, True)
    assert "Upgrade Headgate" in done.err


def test_files_of_a_removed_store_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "headgate-example"
    folder.mkdir()
    (folder / "example.json").write_text('{"store": "another"}')
    done = run(tmp_path, *ONCE)
    assert (done.code, "contains files of another store" in done.err) == (75, True)


def test_the_example_does_not_use_a_named_store(tmp_path: Path) -> None:
    done = run(tmp_path, *ONCE, "--url", "sqlite:///mine.db")
    assert (done.code, "a store of its own" in done.err) == (2, True)
    assert not list(tmp_path.iterdir())
