"""The container file and the systemd unit name existing files, settings and options."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from headgate.cli.service.up import up
from headgate.core.known_settings import KNOWN
from tests.cli.commands import PROGRAM

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "packaging/Containerfile"
UNIT = ROOT / "packaging/headgate.service"


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its words; a backslash continues a line."""
    text = re.sub(r"^#.*\n", "", CONTAINER.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def options_of(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def known_options() -> set[str]:
    return {name for parameter in up.params for name in parameter.opts}


def test_the_container_file_copies_existing_files() -> None:
    for name, words in instructions():
        if name == "COPY" and "--from" not in words:
            for source in words.split()[:-1]:
                assert (ROOT / source).exists(), source
    stages = [words.rpartition(" AS ")[2] for name, words in instructions() if name == "FROM" and " AS " in words]
    copied = [re.search(r"--from=(\w+)", words) for name, words in instructions() if name == "COPY"]
    assert {found[1] for found in copied if found} == set(stages)


def test_an_install_from_a_lock_file_resolves_nothing() -> None:
    """A lock file is complete.

    If pip resolved dependencies all the same, a new release of a pinned package could break it.
    """
    texts = [CONTAINER.read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")]
    installs = [line for text in texts for line in text.splitlines() if "--require-hashes" in line]
    assert len(installs) == 2
    assert all("--no-deps" in line for line in installs), installs
    subprocess.run([sys.executable, "-m", "pip", "check"], check=True, capture_output=True)


def test_the_container_starts_from_a_pinned_image() -> None:
    bases = [words.partition(" AS ")[0] for name, words in instructions() if name == "FROM"]
    assert bases == ["${BASE}", "${BASE}"]
    assert re.fullmatch(
        r"BASE=docker\.io/library/python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", dict(instructions())["ARG"]
    )


def test_the_container_starts_the_service_as_an_unprivileged_user_with_known_settings() -> None:
    found = dict(instructions())
    assert found["USER"] == "headgate"
    command = json.loads(found["CMD"])
    assert json.loads(found["ENTRYPOINT"]) == ["headgate"]
    assert command[0] == "up"
    assert options_of(command) <= known_options()
    assert command[2].endswith(f":{found['EXPOSE']}")
    variables = {known.variable for known in KNOWN}
    assert set(re.findall(r"HEADGATE_\w+", found["ENV"])) <= variables


def test_the_unit_starts_the_service_with_known_options() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT, encoding="utf-8")
    program, command, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, command) == ("headgate", "up")
    assert options_of(words) <= known_options()
    grace = next(parameter for parameter in up.params if parameter.name == "grace")
    assert int(unit["Service"]["TimeoutStopSec"]) > float(str(grace.default))


def test_systemd_accepts_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    """With an existing program: the path in the unit exists on the target machine only."""
    text = UNIT.read_text(encoding="utf-8")
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/opt/headgate/bin/headgate", str(PROGRAM)), encoding="utf-8")
    assert str(PROGRAM) in unit.read_text(encoding="utf-8")
    done = systemd_analyze("verify", str(unit))
    assert (done.returncode, done.stderr) == (0, "")
    done = systemd_analyze("security", "--offline=true", "--threshold=19", str(unit))
    assert done.returncode == 0, done.stdout


def test_the_service_keeps_to_the_system_calls_that_the_unit_allows(tmp_path: Path) -> None:
    """It starts, does one round and exits; none of that may need a call, or memory, that systemd would refuse."""
    trace = tmp_path / "trace"
    watched = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=!futex,pread64,epoll_wait,poll", "-o", str(trace)]
    done = subprocess.run(
        [*watched, str(PROGRAM), "up", "--once", "--listen", "127.0.0.1:0"],
        cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    used = {found[1] for line in lines if (found := re.match(r"\d+ +(\w+)\(", line))}
    allowed, refused, again = (call_names(line) for line in settings_of_unit("SystemCallFilter"))
    assert {"openat", "fdatasync", "fcntl"} <= used
    assert used - (allowed - refused | again) == set()
    assert [line for line in lines if "PROT_WRITE|PROT_EXEC" in line or re.search(r"mprotect\(.*PROT_EXEC", line)] == []


def settings_of_unit(name: str) -> list[str]:
    return re.findall(rf"^{name}=~?(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def call_names(groups: str) -> set[str]:
    """The system calls of some groups, such as @system-service; groups may name groups."""
    found: set[str] = set()
    for group in groups.split():
        words = systemd_analyze("syscall-filter", group).stdout.splitlines()[1:]
        names = {word.strip() for word in words if word.strip() and not word.strip().startswith("#")}
        found |= {name for name in names if not name.startswith("@")}
        found |= call_names(" ".join(name for name in names if name.startswith("@")))
    return found


def systemd_analyze(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)
