"""Finds words of the tables that are typed by hand in code."""

import ast
import re
from collections.abc import Iterator

#: Calls whose words are something else: the name of a command, of an argument, of a column.
NAMING = {"command": None, "BadValue": 1, "UnknownName": 1, "Column": 1, "check_word": 1, "check_name": 1}
NAMING |= {"check_span": 1, "check_seconds": 1}


def typed_words(tree: ast.AST, words: set[str]) -> Iterator[tuple[int, str]]:
    """These words in strings (as a whole, or quoted in SQL), with their lines; docstrings and names are left out."""
    quoted = re.compile(f"'({'|'.join(map(re.escape, sorted(words)))})'")
    left_out = {id(node) for node in _left_out(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            found = [node.value] if node.value in words else quoted.findall(node.value)
            yield from ((node.lineno, word) for word in found)


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            if isinstance(node.body[0], ast.Expr):
                yield node.body[0].value
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from node.args[: NAMING[called]] if called in NAMING else ()
