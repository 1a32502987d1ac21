"""Texts that users read use the words of the glossary, in plain English.

A text is a string of two or more words in the package that is no docstring, and what a template of the dashboard says;
docstrings count where they are shown: those of routes, commands and errors. SQL and its descriptions are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate

PACKAGE = Path(headgate.__file__).parent
#: What is not said, and what is said instead.
BANNED = {
    r"\bcould not be had\b|\bcannot be had\b": "could not be downloaded",
    r"\bmend(ed|ing|s)?\b": "repair",
    r"\bwhat (became|becomes) of\b": "the outcome",
    r"\bwhoever\b|\bwhomever\b": "the holder, callers, any client",
    r"\bit is not so that\b": "this condition is not met",
    r"\b(given|gives|give it) back\b": "release",
    r"\bhand(ed|s)? in\b": "submit, upload",
    r"\blease (has run|ran|is over|ends)\b": "lease expired, expires",
    r"\bnobody shall\b|\bshall\b": "must, may not",
    r"\bfor so long\b|\bwait so long\b|\bso long for\b": "up to that many seconds",
    r"\bis none of\b": "is not one of",
    r"\bthere are: ": "known: ",
    r"\b(is|are) told\b|\bwas told\b|\bto be told\b|\btells? of\b": "report, notify",
    r"\bin the clear\b": "unencrypted",
    r"\bgo(es)? on with: ": "continue with",
    r"\bbegins? anew\b|\bbegun anew\b": "start over, renew",
    r"\bstands? in the way\b|\bis in the way\b": "blocks",
    r"\bis no (number|file|list|mapping|JSON|address|time|id|URL|batch|database|table|function|kind)\b": "is not a …",
    r"\bdoes not reach that far\b": "lacks the scope",
}
ANY_BANNED = re.compile("|".join(BANNED))
#: Files whose strings are read by programs and their authors alone: SQL with its descriptions.
INTERNAL = re.compile(r"_statements\.py$|/migrations/|schema\.py$|/stores/sql/(tokens|sessions|repeats|outages)\.py$")
#: Functions whose docstrings are shown.
SHOWN = re.compile(r"\b(router|click|\w+)\.(get|post|put|patch|delete|command|group)\b")


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Each text of a file that users may read, with its line."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    hidden = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    hidden |= {id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and is_statement(node)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            if " " in node.value.strip():
                yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and is_shown(node, file):
            yield node.lineno, ast.get_docstring(node) or ""


def is_statement(call: ast.Call) -> bool:
    """Whether it makes a SQL statement; its first argument describes it for its authors."""
    return getattr(call.func, "id", "") == "Statement" and bool(call.args)


def is_shown(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, file: Path) -> bool:
    """Whether its docstring is in the reference or in --help."""
    if file.name == "errors.py" and file.parent.name == "core":
        return isinstance(node, ast.ClassDef)
    return any(SHOWN.search(ast.unparse(each)) for each in node.decorator_list)


def found_in(file: Path) -> Iterator[tuple[int, str]]:
    """Each text of a module or template."""
    if file.suffix == ".py":
        return texts(file)
    said = re.sub(r"\{#.*?#\}", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    return enumerate(said.splitlines(), 1)


def test_texts_for_users_use_no_banned_words() -> None:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html")]
    assert len(files) > 100
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}: {found[0]!r} in {text[:80]!r}; say: {better}"
        for file in sorted(files)
        if not INTERNAL.search(str(file))
        for line, text in found_in(file)
        if ANY_BANNED.search(text)
        for pattern, better in BANNED.items()
        if (found := re.search(pattern, text))
    ]
    assert wrong == []


@pytest.mark.parametrize("text", ["a file could not be had", "its lease has run out", "is none of a, b"])
def test_the_table_detects(text: str) -> None:
    assert any(re.search(pattern, text) for pattern in BANNED)
