"""What the help shows works as it is typed; what is mistyped is guessed; what is begun is completed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headgate.cli.completion import SHELLS
from tests.cli.commands import PROGRAM, Headgate, forge_for
from tests.cli.test_output import on_terminal

NOUNS = ["lock", "data", "job", "keys", "token", "daemon", "ingest"]
HEADING = "  A quick look, in a new folder:\n"


def in_shell(folder: Path, script: str, shell: str = "sh", **more: str) -> subprocess.CompletedProcess[str]:
    environment = Headgate("", folder).environment(**more)
    environment["PATH"] = f"{forge_for(environment).path}:{PROGRAM.parent}:{environment['PATH']}"
    return subprocess.run(
        [shell, "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("noun", NOUNS)
def test_the_quick_look_in_a_nouns_help_works_as_typed(noun: str, headgate: Headgate) -> None:
    text = headgate(noun, "--help").out
    assert HEADING in text
    lines = text.partition(HEADING)[2].partition("\n\n")[0]
    assert 2 <= len(lines.splitlines()) <= 5
    assert max(map(len, lines.splitlines())) <= 120
    shutil.copy(headgate.folder / "headgate.sqlite", headgate.folder / "headgate.db")
    done = in_shell(headgate.folder, lines)
    assert done.returncode == 0, done.stderr


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
def test_what_is_mistyped_is_guessed(words: list[str], guess: str, headgate: Headgate) -> None:
    done = headgate(*words)
    assert done.code == 2
    assert "Did you mean" in done.err
    assert guess in done.err


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_of_its_own(shell: str, headgate: Headgate) -> None:
    done = headgate("completion", shell)
    assert done.code == 0
    assert f"{shell}_complete" in done.out
    assert headgate("completion", shell, "--json").json["script"].strip() == done.out.strip()


def test_bash_completes_commands_and_options(headgate: Headgate) -> None:
    ask = """eval "$(headgate completion bash)"
    COMP_WORDS=(headgate lock acq); COMP_CWORD=2; _headgate_completion headgate; echo "${COMPREPLY[@]}"
    COMPREPLY=(); COMP_WORDS=(headgate lock acquire --cl); COMP_CWORD=3;
    _headgate_completion headgate; echo "${COMPREPLY[@]}" """
    done = in_shell(headgate.folder, ask, "bash")
    assert done.stdout.split() == ["acquire", "--client"], done.stderr


#: Sooner than people would be told: what is proven is that it is told, and how.
SOONER = """
import headgate.cli.moving, headgate.cli.output
headgate.cli.output.PATIENCE_SECONDS = 0.0
headgate.cli.moving.FEW = 1
"""


@pytest.mark.parametrize(("words", "waited"), [(["doctor"], "checking everything"), (["backup", "b.gz"], "6/6")])
def test_what_takes_long_says_so_on_a_terminal(words: list[str], waited: str, headgate: Headgate) -> None:
    headgate.acquire("file:/x")
    (headgate.folder / "sitecustomize.py").write_text(SOONER)
    path = os.pathsep.join(filter(None, [str(headgate.folder), os.environ.get("PYTHONPATH", "")]))
    assert waited in re.sub("\x1b[^A-Za-z]*[A-Za-z]", "", on_terminal(headgate, *words, errors=True, PYTHONPATH=path))
    assert waited not in headgate(words[0], *(f"other-{word}" for word in words[1:]), PYTHONPATH=path).err
