"""Find words that an engineer would not say, in everything that people read; part of `make check`.

Read are pages, docstrings, comments, texts for users (messages, help, meanings of tables), templates and test names.
Code, identifiers and SQL are not. A finding names the file, the line, the words and what to say instead.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Words and phrases to avoid, and what to write instead.
VOCABULARY = {
    r"(?:tells?|told|telling)(?![^.]{0,40} (?:apart|from)\b)": "report, record, notify, print, return",
    r"Gives (?:how|what|the|its|an?|whether|since)": "returns",
    r"[Gg]ives? back|given back": "release",
    r"[Ww]ho(?:m)?ever": "the holder, callers, any client",
    r"mend(?:s|ed|ing|able)?": "repair, fix",
    r"put off": "deferred, postponed",
    r"anew": "again",
    r"shall": "must, may, is to be",
    r"(?:for|after|at least|than|within|every|ago|is|not) so (?:long|many|often)": "this long, this many, this often",
    r"(?:became|becomes|become) of": "what happened to, the outcome",
    r"(?<!by )hand(?:s|ed|ing)? in": "submit, upload",
    r"(?:stands?|is|are|be|was|were|stood) in (?:the|its|their|his|our|your) way": "blocks",
    r"quick way|careful way": "fast path, slow path",
    r"for ever": "forever",
    r"(?:the|a|its|no|whose) lease (?:(?:has |had )?(?:runs?|ran) out|is over|was over|ends|ended)": "expires",
    r"if need be": "if necessary",
    r"moving house|move house": "export, import, copy",
    r"(?:could not|cannot|can) be had": "could not be downloaded",
    r"it is not so that": "this condition is not met",
    r"is none of": "is not one of",
    r"there are: ": "known: ",
    r"in the clear": "unencrypted",
    r"So (?:many|much|long) [a-z]+": "at most this many, this long",
    r"the dead (?:left|leaves?|had)": "dead processes held, what died",
    r"is no(?<!there is no) (?:number|file|list|mapping|JSON|address|time|id|URL|batch|database|table)": "is not a",
    r"does not reach that far": "lacks the scope",
    r"(?:holds? (?:it|them)|held) still": "locked",
    r"go(?:es)? on behind": "continues after",
    r"tried again": "retried",
    r"begins? so": "has that prefix",
    r"lets? [a-z]+ go on": "continue, resume",
    r"[Mm]icro-seconds?": "microseconds",
    r"one after the other": "one after another",
    r"(?:any|every)body(?:'s)?": "any client, all users, all others",
    r"place in the queue": "queue position",
    r"go(?:es)? on with": "continue",
    r"(?:is|are|was|were) asked again": "retried, queried again, requested again",
    r"so manyth|look-alike": "one in this many; stand-in",
    r"(?<=^test )(?:who|what)(?!_)": "the thing first: a caller that …, items that …",
    r"(?:RULES|ENGLISH|HOUSE|STYLE|WAKEUPS)\.md|seed 0\d\d": "a document that readers do not have",
}
ANY = re.compile(rf"\b(?:{'|'.join(VOCABULARY)})(?:\b|(?<=[ .]))")
SAYS = [(re.compile(rf"\b(?:{pattern})(?:\b|(?<=[ .]))"), better) for pattern, better in VOCABULARY.items()]
#: Python whose strings are SQL.
NO_TEXTS = re.compile(
    r"statements\.py$|/migrations/|schema\.py$|/stores/sql/(dialects/|access/|repeats|server/outages|moving/)"
)
#: This table, and the pages that are generated from code, which is checked itself.
OWN = ("tools/english.py", "tests/unit/test_english.py")
MADE = "<!-- Made by `make docs`"
_NOT_PROSE = re.compile(r"^(`{3,}).*?^\1|<!--.*?-->|`[^`\n]*`|\]\([^)\n]*\)|https?:\S+", re.DOTALL | re.MULTILINE)
_NO_TEXT = re.compile(r"\{[#%{].*?[#%}]\}|<[^>]*>", re.DOTALL)
_TEST_NAME = re.compile(r"^(?:    )?def (test_\w+)", re.MULTILINE)


def findings(name: str, text: str) -> Iterator[str]:
    """Each word to avoid in a file."""
    for line, prose in prose_of(name, text):
        for found in ANY.finditer(prose):
            better = next(better for pattern, better in SAYS if pattern.match(prose, found.start()))
            yield f"{name}:{line + prose.count(chr(10), 0, found.start())}: {found[0]!r}; say: {better}"


def prose_of(name: str, text: str) -> Iterator[tuple[int, str]]:
    """What people read in a file, each piece with its line."""
    if name.endswith(".py"):
        if ANY.search(text):
            yield from _read_by_programmers(name, text)
        if name.startswith("tests/"):
            for found in _TEST_NAME.finditer(text):
                yield text.count("\n", 0, found.start()) + 1, found[1].replace("_", " ")
    elif name.endswith(".md"):
        if MADE not in text:
            yield 1, _NOT_PROSE.sub(_blank, text)
    elif name.endswith(".html"):
        yield 1, _NO_TEXT.sub(_blank, text)
    else:
        yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if "#" in line)


def _read_by_programmers(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings, and strings of more than one word."""
    docstrings = _docstrings(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        shown = token.type == tokenize.STRING and " " in token.string and not NO_TEXTS.search(name)
        if shown or token.type == tokenize.COMMENT or (token.type == tokenize.STRING and line in docstrings):
            yield line, re.sub(r"`[^`\n]*`|\{[^}\n]*\}", _blank, token.string)


def _blank(found: re.Match[str]) -> str:
    """The same number of blanks, on the same number of lines."""
    return re.sub(r"[^\n]", " ", found[0])


def _docstrings(text: str) -> set[int]:
    """The lines on which docstrings begin."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = (node.body for node in ast.walk(ast.parse(text)) if isinstance(node, kinds) and node.body)
    return {
        body[0].lineno for body in bodies if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    }


def files() -> list[str]:
    """The files of the project that people read."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "*.md", "*.html", "*.sh", "Makefile"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [name for name in listed if name not in OWN and (ROOT / name).exists()]


def main() -> int:
    """Print what was found; 1 if anything was."""
    found = [line for name in files() for line in findings(name, (ROOT / name).read_text(encoding="utf-8"))]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
