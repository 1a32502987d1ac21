"""The commands shown in the help work as typed; typos are guessed; partial words are completed."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headgate.cli.terminal.completion import SHELLS
from headgate.cli.tree import root
from tests.cli.commands import PROGRAM, Headgate, forge_for
from tests.cli.test_output import on_terminal

NOUNS = ["lock", "data", "job", "keys", "token", "daemon", "ingest"]
HEADING = "  A quick look, after headgate init:\n"


def in_shell(folder: Path, script: str, shell: str = "sh", **more: str) -> subprocess.CompletedProcess[str]:
    environment = Headgate("", folder).environment(**more)
    environment["PATH"] = f"{forge_for(environment).path}:{PROGRAM.parent}:{environment['PATH']}"
    return subprocess.run(
        [shell, "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("noun", NOUNS)
def test_the_examples_in_a_nouns_help_work(noun: str, headgate: Headgate) -> None:
    text = headgate(noun, "--help").out
    assert HEADING in text
    lines = text.partition(HEADING)[2].partition("\n\n")[0]
    assert 2 <= len(lines.splitlines()) <= 5
    shutil.copy(headgate.folder / "headgate.sqlite", headgate.folder / "headgate.db")
    done = in_shell(headgate.folder, lines)
    assert done.returncode == 0, done.stderr


def test_no_help_is_wider_than_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    def wide(command: click.Command, words: list[str]) -> Iterator[str]:
        shown = CliRunner().invoke(root, [*words, "--help"], prog_name="headgate").output
        assert shown.startswith("Usage: headgate")
        yield from (line for line in shown.splitlines() if len(line) > 80)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found
                yield from wide(found, [*words, name])

    assert list(wide(root, [])) == []


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["lok", "list"], "'lock'"),
        (["lock", "aquire", "x"], "'acquire'"),
        (["lock", "acquire", "x", "--clint", "a"], "'--client'"),
        (["--jsn"], "'--json'"),
        (["ingest", "submitt"], "'submit'"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_word(words: list[str], guess: str, headgate: Headgate) -> None:
    done = headgate(*words)
    assert done.code == 2
    assert "Did you mean" in done.err
    assert guess in done.err


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_its_own_completion_script(shell: str, headgate: Headgate) -> None:
    done = headgate("completion", shell)
    assert done.code == 0
    assert f"{shell}_complete" in done.out
    assert headgate("completion", shell, "--json").json["script"].strip() == done.out.strip()


#: The text before TAB, and the completions in bash; without a store the names are missing.
COMPLETED = {
    "lock acq": "acquire",
    "lock acquire --cl": "--client",
    "lock acquire x --mode ": "shared exclusive",
    "data list --status RE": "READY RESUBMIT",
    "data list --kind in": "INPUT",
    "ingest jobs --state es": "estimating",
    "history --event bre": "break",
    "token new ann --role op": "operator",
    "ingest hold de": "demo",
}
STORED = {
    "job run cl": "clean",
    "job explain cl": "clean",
    "data publish ": "raw tidy",
    "data list --dataset t": "tidy",
}


def completed(folder: Path, typed: Iterable[str], **more: str) -> list[str]:
    """The completions that bash offers after each of these lines."""
    ask = ['eval "$(headgate completion bash)"']
    for line in typed:
        words = [*line.split(" ")]
        ask.append(f"COMPREPLY=(); COMP_WORDS=(headgate {' '.join(map(repr, words))}); COMP_CWORD={len(words)}")
        ask.append('_headgate_completion headgate; echo "${COMPREPLY[@]}"')
    done = in_shell(folder, "\n".join(ask), "bash", **more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_bash_completes_commands_options_and_values(headgate: Headgate) -> None:
    (headgate.folder / "profiles").mkdir()
    (headgate.folder / "profiles" / "demo.toml").touch()
    (headgate.folder / "pipeline.toml").write_text(
        '[dataset.raw]\n[dataset.tidy]\n[job.clean]\ninputs = ["raw"]\noutputs = ["tidy"]\n'
    )
    assert headgate("define", "pipeline.toml").code == 0
    every = {**COMPLETED, **STORED}
    settings = {"HEADGATE_URL": headgate.url, "HEADGATE_PROFILES_FOLDER": str(headgate.folder / "profiles")}
    assert dict(zip(every, completed(headgate.folder, every, **settings), strict=True)) == every


def test_completion_creates_no_store_and_does_not_wait_for_one(tmp_path: Path) -> None:
    assert completed(tmp_path, ["job run cl"], HEADGATE_URL=f"sqlite:///{tmp_path}/none.db") == [""]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    assert completed(tmp_path, ["job run cl"], HEADGATE_URL=f"sqlite:///{tmp_path}/empty.db") == [""]
    assert (tmp_path / "empty.db").stat().st_size == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It accepts, and never answers.
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/none"
        assert completed(tmp_path, ["job run cl"], HEADGATE_URL=url) == [""]


#: Sooner than for users: the test checks that and how progress is shown.
SOONER = """
import headgate.cli.store.moving, headgate.cli.terminal.progress
headgate.cli.terminal.progress.PATIENCE_SECONDS = 0.001
headgate.cli.store.moving.FEW = 1
"""


@pytest.mark.parametrize(
    ("words", "waited"), [(["doctor"], "checking everything"), (["backup", "b.gz"], "6 of 6 rows (100%)")]
)
def test_slow_commands_show_progress_on_a_terminal(words: list[str], waited: str, headgate: Headgate) -> None:
    headgate.acquire("file:/x")
    (headgate.folder / "sitecustomize.py").write_text(SOONER)
    path = os.pathsep.join(filter(None, [str(headgate.folder), os.environ.get("PYTHONPATH", "")]))
    assert waited in re.sub("\x1b[^A-Za-z]*[A-Za-z]", "", on_terminal(headgate, *words, errors=True, PYTHONPATH=path))
    assert waited not in headgate(words[0], *(f"other-{word}" for word in words[1:]), PYTHONPATH=path).err
