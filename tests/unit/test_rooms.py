"""The layout of the code: no import cycles, and no two modules or classes with names that are easily confused."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

import headgate

PACKAGE = Path(headgate.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def loops(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, each in alphabetical order."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = imports.get(ahead.pop(), set()) - seen
            seen |= new
            ahead += new
        return seen

    beyond = {module: reached(module) for module in imports}
    groups = {frozenset({module, *(each for each in beyond[module] if module in beyond.get(each, ()))})
              for module in imports if module in beyond[module]}  # fmt: skip
    return sorted(sorted(group) for group in groups)


def key_of(name: str) -> frozenset[str]:
    """What two names have in common that differ only by the form or the order of their words."""
    return frozenset(re.sub(r"(?<=\w{3})(ings?|ers?|ed|es?|s)$", "", word) for word in name.split("_"))


def alike(names: Iterator[str]) -> list[list[str]]:
    found = defaultdict(set)
    for name in names:
        found[key_of(name)].add(name)
    return sorted(sorted(each) for each in found.values() if len(each) > 1)


def classes() -> Iterator[tuple[str, str]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(PACKAGE))


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("headgate", cache_dir=None)
    assert loops({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_no_two_modules_of_a_layer_have_almost_the_same_name() -> None:
    layers = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
    found = {layer.name: alike(path.stem for path in layer.rglob("*.py")) for layer in layers}
    assert {layer: pairs for layer, pairs in found.items() if pairs} == {}


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for name, path in classes():
        places[name].append(path)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def passed_on(tree: ast.AST) -> list[str]:
    """Functions that only call a private function that no other code uses, with the same arguments."""
    used = Counter(name for node in ast.walk(tree) if (name := named(node)))
    private = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name[:1] == "_"}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            acts = [each for each in node.body if not is_text(each)]
            value = acts[0].value if len(acts) == 1 and isinstance(acts[0], ast.Return | ast.Expr) else None
            call = value.value if isinstance(value, ast.Await) else value
            if isinstance(call, ast.Call) and (name := named(call.func)) in private and used[name] == 1:
                given = (ast.Name, ast.Attribute, ast.Constant)
                found += [node.name] if all(isinstance(each, given) for each in call.args) else []
    return found


def named(node: ast.AST) -> str:
    """The name as used here, also of a method of the same class."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_no_function_only_forwards_to_one_that_nothing_else_calls() -> None:
    found = {path.name: passed_on(ast.parse(path.read_text(encoding="utf-8"))) for path in FILES}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_functions_that_only_forward_are_found() -> None:
    code = (
        "def a(b):\n    'Text.'\n    return _c(b)\ndef _c(b): return b + 1\ndef d(e): return _f(e + 1)\ndef _f(e): ..."
    )
    assert passed_on(ast.parse(code)) == ["a"]


def test_every_folder_describes_its_contents() -> None:
    silent = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_import_cycles_and_similar_names_are_found() -> None:
    assert loops({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"], ["d"]]
    assert alike(iter(["fetch", "fetching", "lock_run", "run_locks", "tokens"])) == [
        ["fetch", "fetching"],
        ["lock_run", "run_locks"],
    ]
