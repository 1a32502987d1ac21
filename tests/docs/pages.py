"""A page of the docs: its blocks, and the purpose of each. CONTRIBUTING.md explains the convention."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"```([a-z]*)\s*")
_NOTE = re.compile(r"<!-- (not run|second terminal|until|Ctrl-C)(?:: (.*))? -->")
_NAMES_A_FILE = re.compile(r"`([^`\s]+)`:$")


@dataclass(frozen=True)
class Step:
    """A command of a session, and its output on the page."""

    command: str
    shown: str


@dataclass(frozen=True)
class Block:
    """One block of code, or one note for the runner, in the order of the page."""

    #: script, python, session, elsewhere (a session in a second terminal), file, until, interrupt, or shown.
    kind: str
    #: A file's name; a note's command; why a block is not run.
    name: str
    content: str
    #: Line of its fence in the page, from 1.
    line: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """The commands of a session."""
        return tuple(_steps(self.content.splitlines()))


def all_pages() -> list[Path]:
    """Every page, including those outside the docs folder."""
    return sorted([*ROOT.glob("*.md"), *(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)])


def has_something_to_run(page: Path) -> bool:
    """Whether there is a block that a reader would type."""
    return any(block.kind not in ("shown", "file") for block in blocks_of(page.read_text(encoding="utf-8")))


def blocks_of(text: str) -> list[Block]:
    """The blocks and notes of a page."""
    return list(_Reader(text.splitlines()).read())


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = iter(enumerate(lines, 1))
        self._said = ""
        self._note: tuple[str, str] | None = None

    def read(self) -> Iterator[Block]:
        for number, line in self._lines:
            if note := _NOTE.fullmatch(line):
                yield from self._noted(note[1], note[2] or "", number)
            elif fence := _FENCE.fullmatch(line):
                yield self._block(fence[1], number)
            elif line.strip():
                self._said = line

    def _noted(self, word: str, rest: str, number: int) -> Iterator[Block]:
        if word == "until":
            yield Block("until", rest, "", number)
        elif word == "Ctrl-C":
            yield Block("interrupt", "", "", number)
        else:
            self._note = (word, rest)

    def _block(self, language: str, number: int) -> Block:
        content = ""
        for _, line in self._lines:
            if line == "```":
                break
            content += f"{line}\n"
        note, self._note = self._note, None
        said, self._said = self._said, ""
        kind, name = _kind(language, note, said)
        return Block(kind, name, content, number)


def _kind(language: str, note: tuple[str, str] | None, said: str) -> tuple[str, str]:
    if note and note[0] == "not run":
        return "shown", note[1]
    if language == "console":
        return "elsewhere" if note else "session", ""
    if found := _NAMES_A_FILE.search(said):
        return "file", found[1]
    return {"sh": "script", "python": "python"}.get(language, "shown"), ""


def _steps(lines: list[str]) -> Iterator[Step]:
    command: list[str] = []
    shown: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            if command:
                yield Step("\n".join(command), "\n".join(shown))
            command, shown = [line[2:]], []
        elif line.startswith("> ") and not shown:
            command.append(line[2:])
        else:
            shown.append(line)
    yield Step("\n".join(command), "\n".join(shown))
