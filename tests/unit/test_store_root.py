"""The root of a store is declared: no attribute of a store is looked up by name, or hidden from the type checker."""

import ast
from collections.abc import Iterator
from pathlib import Path

import headgate

SOURCE = Path(headgate.__file__).parent
#: Functions that test whether an object has an attribute.
LOOKING = {"getattr", "hasattr"}


def lookups(text: str) -> Iterator[str]:
    """Calls that look up an attribute of a store by its name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOOKING:
            owner = ast.unparse(node.args[0])
            if "store" in owner.lower():
                yield ast.unparse(node)


def test_no_attribute_of_a_store_is_looked_up_by_name() -> None:
    found = {str(path): list(lookups(path.read_text())) for path in SOURCE.rglob("*.py")}
    assert {path: calls for path, calls in found.items() if calls} == {}
    assert [*lookups("getattr(self._store, 'ledger', None)"), *lookups("hasattr(gate.store, 'x')")]


def store_uses(text: str) -> Iterator[str]:
    """Attributes that are stores, or lead to one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in {"store", "_store", "root", "parts"}:
            yield ast.unparse(node)


def test_the_http_layer_never_uses_a_store() -> None:
    found = {str(path): list(store_uses(path.read_text())) for path in (SOURCE / "http").rglob("*.py")}
    assert {path: uses for path, uses in found.items() if uses} == {}
    assert list(store_uses("gate.ledger.store.standing()"))


def ports(text: str) -> Iterator[str]:
    """Ports that a module imports, by name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headgate.stores"):
            yield from (each.name for each in node.names if each.name.endswith("Store"))


def test_the_http_layer_imports_no_port() -> None:
    """From the modules that define ports it imports only plain data: tickets, grants and filters."""
    found = {str(path): list(ports(path.read_text())) for path in (SOURCE / "http").rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}
    assert list(ports("from headgate.stores.ports.locks import LockStore, Ticket")) == ["LockStore"]


def test_no_attribute_is_hidden_from_the_type_checker() -> None:
    hidden = [str(path) for path in SOURCE.rglob("*.py") if "ignore[attr-defined" in path.read_text()]
    assert hidden == []
