"""Runs the blocks of a page, in order, in a separate folder, and compares their output with the page."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.cli.commands import forge_for
from tests.docs.pages import Block, Step

PATIENCE_SECONDS = 100.0
POLL_SECONDS = 0.2
#: If it is set, wrong output in a page is rewritten: `make pages`.
RENEWS = bool(os.environ.get("HEADGATE_RENEW_PAGES"))
TOOLS = Path(__file__).parent / "bin"
#: The identity on the pages: user, host and working folder of the examples.
USER, HOST, FOLDER = "ann", "node1", "/home/ann/orders"

#: How a command runs on a host with that name, so that columns of recorded output are aligned.
AS_HOST = ["unshare", "--uts", "sh", "-c", f'hostname {HOST}; exec "$@"', "sh"] if RENEWS else []

#: Values that differ from run to run and are used again later: ids of locks and objects, API tokens, keys, pids.
NAMES = re.compile(
    r"\b[0-9a-z]{4}-[0-9a-z]{16}-[0-9a-z]{12}\b|\bark[:_]/?99999[/_]fk4[0-9a-z]+|\bhg_[a-z0-9]{12}_[\w-]{43}"
    r"|\bhgk_[\w-]+|\bhgc_[\w-]{43}"
)
#: Patterns of values that differ from run to run, with their replacements in comparisons.
_VARIES = [
    (NAMES, "ID"),
    (re.compile(r"\bincident-[0-9a-f]{4}-\d+-(opened|closed)-\d+"), r"incident-N-\1"),
    (re.compile(r"^[a-z0-9]{12}(?= +first start)", re.MULTILINE), "ID"),  # the token that `headgate up` creates
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00| UTC)?"), "TIME"),
    (re.compile(r"^\d+ +TIME|(?<=--after )\d+", re.MULTILINE), "ENTRY"),
    (re.compile(r"\bpid \d+( #[0-9a-f]{6})?( hpc:\d+\.0)?"), "pid N"),
    (re.compile(r"(?<=pid N)( +)\d+(?= +\S)"), r"\1TOKEN"),  # parallel workers claim in any order
    (
        re.compile(
            r"\b\d+ min \d+ s\b|\b\d+ h \d+ min\b|\b\d+ d \d+ h\b|\b\d+(\.\d+)?( ms| s| min| h|s)\b|\b\d+ d(?= ago)"
        ),
        "N s",
    ),
    (re.compile(r"\b[0-9a-f]{32}([0-9a-f]{32})?\b"), "DIGEST"),
    (re.compile(r"\b[0-9][0-9,]* bytes"), "N bytes"),
    (re.compile(r"\bschema \d{4}\b"), "schema N"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
]


def plain(text: str) -> str:
    """The text without values that differ from run to run."""
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return text.strip("\n")


class Words:
    """The values on the page with their values here: addresses, ports, names; and the ids that commands returned."""

    def __init__(self, here: Mapping[str, str], folder: Path) -> None:
        self._here = {FOLDER: str(folder), **here}
        self._names: dict[str, str] = {}

    def here(self, text: str) -> str:
        """The page's text in the form to be run."""
        for page, real in self._here.items():
            text = text.replace(page, real)
        for page, real in self._names.items():
            text = text.replace(page, real)
        return text

    def page(self, text: str) -> str:
        """The output in the page's form."""
        for page, real in self._here.items():
            text = text.replace(real, page)
        text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", HOST, text)
        for page, real in self._names.items():
            text = text.replace(real, page)
        return text

    def learn(self, shown: str, printed: str) -> None:
        """The ids here for those of the page."""
        for page, real in zip(NAMES.findall(shown), NAMES.findall(printed), strict=False):
            if self._names.setdefault(page, real) == real and page.startswith("hg_"):
                self._names[page[3:15]] = real[3:15]  # a token's id, by which it is revoked


class Shell:
    """One shell for a whole page, so that variables and folders stay as they are."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._scripts = folder.parent / "scripts"
        self._scripts.mkdir()
        self._process = subprocess.Popen(
            [*AS_HOST, "sh"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self._last = 0
        self._count = 0

    def run(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and its complete output."""
        self._count += 1
        script = self._scripts / f"{self._count}.sh"
        script.write_text(command + "\n", encoding="utf-8")
        mark = f"--- end of {script.name}: "
        assert self._process.stdin
        self._process.stdin.write(f"(exit {self._last})\n. {script} </dev/null\nprintf '%s%s\\n' '{mark}' $?\n")
        self._process.stdin.flush()
        printed = ""
        patience = threading.Timer(PATIENCE_SECONDS, end_group, [self._process, signal.SIGKILL])
        patience.start()
        while mark not in printed:
            line = self._process.stdout.readline() if self._process.stdout else ""
            assert line, f"the shell ended, or did not within {PATIENCE_SECONDS:g} s: {command}\n{printed}"
            printed += line
        patience.cancel()
        text, _, code = printed.rpartition(mark)
        self._last = int(code)
        return self._last, text

    def end(self) -> None:
        """End it, and everything that it still runs."""
        end_group(self._process, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


def end_group(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    """Send a signal to a process and everything that it started, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    process.wait(PATIENCE_SECONDS)


class Terminal:
    """Another terminal: one command that keeps running, and its output so far."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str], output: Path) -> None:
        self._output = output
        with output.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(
                [*AS_HOST, "sh", "-c", command],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                text=True,
            )

    @property
    def printed(self) -> str:
        return self._output.read_text(encoding="utf-8")


def with_forge(environment: Mapping[str, str]) -> dict[str, str]:
    """The same, where a `headgate` command costs a fork instead of starting an interpreter."""
    return {**environment, "PATH": os.pathsep.join([str(forge_for(environment).path), environment["PATH"]])}


class Visit:
    """A page, run from top to end. The expected output is recorded in `shown`, by line of the block."""

    def __init__(self, folder: Path, here: Mapping[str, str]) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        self.words = Words(here, self.folder)
        self.environment = {
            "PATH": os.pathsep.join([str(TOOLS), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(folder),
            "USER": USER,
            "LOGNAME": USER,
            "LANG": "C.UTF-8",
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
        }
        self.differences: dict[int, tuple[str, str]] = {}
        self._shell = Shell(self.folder, self.environment if RENEWS else with_forge(self.environment))
        self._terminals: list[Terminal] = []

    def run(self, blocks: list[Block]) -> None:
        """All of it."""
        acts: dict[str, Callable[[Block], None]] = {
            "file": self._write,
            "script": self._script,
            "python": self._python,
            "session": self._session,
            "elsewhere": self._elsewhere,
            "until": self._until,
            "interrupt": self._interrupt,
        }
        for block in blocks:
            if block.kind in acts:
                acts[block.kind](block)

    def type(self, command: str) -> None:
        """Run one more command, which must succeed."""
        code, printed = self._shell.run(self.words.here(command))
        assert code == 0, f"{command}: exit code {code}\n{printed}"

    def end(self) -> None:
        """Leave no process behind."""
        self._interrupt()
        self._shell.end()

    def _write(self, block: Block) -> None:
        path = self.folder / block.name.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.words.here(block.content), encoding="utf-8")

    def _script(self, block: Block) -> None:
        code, printed = self._shell.run(f"set -e\n{self.words.here(block.content)}set +e")
        assert code == 0, f"line {block.line}: exit code {code}\n{printed}"

    def _python(self, block: Block) -> None:
        (self.folder.parent / "block.py").write_text(self.words.here(block.content), encoding="utf-8")
        code, printed = self._shell.run("python ../block.py")
        assert code == 0, f"line {block.line}: exit code {code}\n{printed}"

    def _session(self, block: Block) -> None:
        said, code, bad = "", 0, []
        for step in block.steps:
            if code and step.command != "echo $?":
                bad.append(f"exit code {code}, which the page does not show, of what stands before: {step.command}")
            code, printed = self._shell.run(self.words.here(step.command))
            said += self._compare(step, printed)
        assert not code, f"line {block.line}: exit code {code}, which the page does not show\n{said}"
        assert not bad, f"line {block.line}: {bad}\n{said}"
        self._note(block, said)

    def _compare(self, step: Step, printed: str) -> str:
        """The expected output of a step on the page: the shown one, if it is true."""
        self.words.learn(step.shown, printed)
        printed = self.words.page(printed)
        true = step.shown if plain(step.shown) == plain(printed) else printed.strip("\n")
        command = step.command.replace("\n", "\n> ")
        return f"$ {command}\n{true}\n" if true else f"$ {command}\n"

    def _note(self, block: Block, said: str) -> None:
        if plain(said) != plain(block.content):
            self.differences[block.line] = (block.content, said)

    def _elsewhere(self, block: Block) -> None:
        (step,) = block.steps
        output = self.folder.parent / f"terminal-{block.line}.txt"
        here = Terminal(self.words.here(step.command), self.folder, self.environment, output)
        self._terminals.append(here)
        lines = len(step.shown.splitlines())
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(here.printed.splitlines()) < lines and here.process.poll() is None:
            assert time.monotonic() < deadline, f"line {block.line}: only this was printed:\n{here.printed}"
            time.sleep(POLL_SECONDS)
        first = "".join(here.printed.splitlines(keepends=True)[:lines])
        self._note(block, self._compare(step, first))

    def _until(self, block: Block) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            code, printed = self._shell.run(f"{{ {self.words.here(block.name)}; }} 2>&1")
            if code == 0:
                return
            assert time.monotonic() < deadline, f"line {block.line}: not so: {block.name}\n{printed}"
            time.sleep(POLL_SECONDS)

    def _interrupt(self, block: Block | None = None) -> None:
        del block
        while self._terminals:
            end_group(self._terminals.pop().process, signal.SIGINT)
