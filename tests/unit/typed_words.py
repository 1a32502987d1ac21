"""Finds words of the tables that are typed by hand in code."""

import ast
import re
from collections.abc import Iterator

#: Calls whose words are something else: the name of a command, of an argument, of a column.
NAMING = {"command": None, "BadValue": 1, "UnknownName": 1, "Column": 1, "check_word": 1, "check_name": 1}
NAMING |= {"check_span": 1, "check_seconds": 1}


def typed_words(tree: ast.AST, words: set[str]) -> Iterator[tuple[int, str]]:
    """These words in strings, with their lines: as a whole, in a list of words, or quoted, as in SQL and JSON.

    Docstrings and names are left out.
    """
    left_out = {id(node) for node in _left_out(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in left_out:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            listed = [word for word in re.split(r"[\s,;|/]+", text) if word]
            is_list = words.issuperset(listed) and (len(listed) > 1 or text in words)
            found = listed if is_list else quoted_words(text, words)
            yield from ((node.lineno, word) for word in found)


def quoted_words(text: str, words: set[str]) -> list[str]:
    """These words in a text, wherever they stand between quotes of any kind."""
    named = "|".join(map(re.escape, sorted(words)))
    return [found[2] for found in re.finditer(rf"""(['"])({named})\1""", text)]


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            if isinstance(node.body[0], ast.Expr):
                yield node.body[0].value
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from node.args[: NAMING[called]] if called in NAMING else ()
