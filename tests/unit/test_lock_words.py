"""No mode, state or event of a lock is typed by hand in a store: the core's tables are the only place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import headgate
from headgate.core.locks import Mode
from headgate.core.states import LOCK

STORES = Path(headgate.__file__).parent / "stores"
WORDS = {*LOCK.states, *LOCK.events, *Mode}
QUOTED = re.compile(f"'({'|'.join(map(re.escape, sorted(WORDS)))})'")
#: The lock code of the stores that is free of them; ZooKeeper's without the files of the queue.
SQL = [
    "epoch_statements", "expiring", "fast_paths", "granting", "holding", "lock_changes", "lock_snapshots",
    "lock_statements", "locks", "queueing", "dialects/base", "dialects/mysql", "dialects/mysql_locks",
    "dialects/postgresql", "dialects/postgresql_locks", "dialects/sqlite", "dialects/sqlite_locks",
]  # fmt: skip
FILES = [
    *(STORES / "sql" / f"{name}.py" for name in SQL),
    *(path for path in sorted((STORES / "zookeeper").glob("*.py")) if "queue" not in path.stem),
]
#: Words that are something else there: a field of a node.
ALLOWED = {("zookeeper/records.py", "waiting")}


def words_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Words of the table in strings (as a whole, or quoted in SQL), and modes by name."""
    texts = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            found = [node.value] if node.value in WORDS else QUOTED.findall(node.value)
            yield from ((node.lineno, word) for word in found)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Mode":
            yield node.lineno, f"Mode.{node.attr}"


def test_no_store_types_a_mode_state_or_event_of_a_lock() -> None:
    found = [
        f"{path.relative_to(STORES)}:{line}: {word}"
        for path in FILES
        for line, word in words_in(ast.parse(path.read_text()))
        if (str(path.relative_to(STORES)), word) not in ALLOWED
    ]
    assert found == []


def test_the_search_finds_words_wherever_they_are_typed() -> None:
    typed = """
def find(mode):
    "the shared ones"
    if mode is Mode.EXCLUSIVE:
        return run("select 1 where mode = 'shared'"), LOCK.find(mode, "release"), "shared by all"
"""
    assert [word for _, word in words_in(ast.parse(typed))] == ["Mode.EXCLUSIVE", "shared", "release"]
