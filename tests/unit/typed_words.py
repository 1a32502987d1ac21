"""Finds literals of table words in code."""

import ast
import re
from collections.abc import Iterator

#: Calls whose words mean something else: the name of a command, of an argument, of a column.
NAMING = {"command": None, "BadValue": 1, "UnknownName": 1, "Column": 1, "check_word": 1, "check_name": 1}
NAMING |= {"check_span": 1, "check_seconds": 1}


def typed_words(tree: ast.AST, words: set[str]) -> Iterator[tuple[int, str]]:
    """These words in strings, with their lines: as a whole, in a list of words, quoted as in SQL and JSON, or as the
    value of a query or an option. What something is compared with is found in any case of letters.

    Docstrings and names are left out.
    """
    left_out = {id(node) for node in _left_out(tree)}
    compared = {id(each) for node in ast.walk(tree) for each in _compared(node)}
    folded = {word.lower() for word in words}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in left_out:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            listed = [word for word in re.split(r"[\s,;|/]+", text) if word]
            is_list = words.issuperset(listed) and (len(listed) > 1 or text in words)
            found = listed if is_list else quoted_words(text, words)
            if not found and id(node) in compared and text.lower() in folded:
                found = [text]
            yield from ((node.lineno, word) for word in found)


def quoted_words(text: str, words: set[str], quotes: str = "'\"") -> list[str]:
    """These words in a text, wherever they are quoted, or as a value: `?state=…`, `--state …`."""
    named = "|".join(map(re.escape, sorted(words)))
    quoted = re.finditer(rf"([{quotes}])({named})\1", text)
    values = re.finditer(rf"(?:[?&][\w-]+=|--[a-z-]+[ =])({named})(?![\w-])", text)
    return [*(found[2] for found in quoted), *(found[1] for found in values)]


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    """The literals in a comparison or a case."""
    if isinstance(node, ast.Compare):
        yield from (each for part in (node.left, *node.comparators) for each in ast.walk(part))
    elif isinstance(node, ast.MatchValue):
        yield from ast.walk(node.value)


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            if isinstance(node.body[0], ast.Expr):
                yield node.body[0].value
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from node.args[: NAMING[called]] if called in NAMING else ()
