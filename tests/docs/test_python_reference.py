"""The Python reference has every public name, every parameter and every field; programs import from `headgate`."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from sphinx.pycode import ModuleAnalyzer

import headgate
from headgate.service.leases.renewal import KeptAlive
from headgate.service.ledger.chunk_waits import LedgerWaits
from headgate.service.ledger.questions import LedgerReader
from headgate.service.queue.questions import QueueReader
from tests.docs.pages import ROOT, all_pages, blocks_of
from tools.python_reference import (
    INTERNAL,
    described_in,
    parameters_of,
    public_classes,
    sentences_for,
    superfluous,
    undescribed,
)

CLASSES = public_classes()
#: Modules that programs may import from.
PUBLIC_MODULES = {"headgate", "headgate.ensembl"}


class Example:
    """An example.

    :param one: Described for every method.
    """

    def method(self, one: int, two: int) -> int:
        """Has one parameter that nothing describes."""
        return one + two

    def other(self, one: int) -> int:
        """Describes it again.

        :param one: Described here, in a sentence
            of two lines.
        :param gone: Not a parameter.
        """
        return one


Example.method.__module__ = Example.other.__module__ = "headgate.example"


def test_every_public_name_is_on_one_page() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))
    shown = re.findall(r"^\.\. auto(?:class|data|exception|function):: headgate\.(\w+)", text, re.MULTILINE)
    assert Counter(shown) == Counter(name for name in headgate.__all__ if name != "__version__")


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in headgate.__all__ if getattr(headgate, name, None) is None] == []


def test_every_parameter_is_described() -> None:
    assert len(CLASSES) > 50
    assert [each for name, kind in CLASSES.items() for each in undescribed(name, kind)] == []
    assert [
        each for each in parameters_of(headgate.connect) if each not in described_in(headgate.connect.__doc__)
    ] == []


def test_every_described_parameter_exists() -> None:
    assert [each for name, kind in CLASSES.items() for each in superfluous(name, kind)] == []


def test_missing_and_superfluous_descriptions_are_found() -> None:
    assert list(undescribed("Example", Example)) == ["Example.method(two)"]
    assert list(superfluous("Example", Example)) == ["Example.other: gone"]
    assert sentences_for(Example, Example.method) == {"one": "Described for every method."}
    assert sentences_for(Example, Example.other) == {"one": "Described here, in a sentence of two lines."}


def test_every_public_method_has_a_sentence() -> None:
    missing = [
        f"{name}.{member}"
        for name, kind in CLASSES.items()
        for member, value in inspect.getmembers(kind)
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        if not inspect.getdoc(value)
    ]
    assert missing == []


def test_every_field_of_a_noun_has_a_sentence() -> None:
    missing = []
    for kind in filter(is_dataclass, CLASSES.values()):
        comments = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
        missing += [
            f"{kind.__name__}.{each.name}"
            for each in fields(kind)
            if (kind.__name__, each.name) not in comments and not each.metadata.get("meaning")
        ]
    assert missing == []


def test_every_internal_name_exists() -> None:
    kinds = {**CLASSES, **{each.__name__: each for each in (KeptAlive, LedgerReader, LedgerWaits, QueueReader)}}
    for name, members in INTERNAL.items():
        source = inspect.getsource(kinds[name])
        assert [each for each in members if not re.search(rf"\b(def |self\.|){each}\b", source)] == []


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Each name of Headgate that a program imports or uses, with the module that it takes it from."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "headgate":
            yield from ((node.module or "", each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] == "headgate")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "headgate":
            yield "headgate", node.attr


def programs() -> Iterator[tuple[Path, str]]:
    """The Python that users read: blocks of pages, and examples."""
    for page in all_pages():
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.kind == "python" or (block.kind == "file" and block.name.endswith(".py")):
                yield page, block.content
    for file in (ROOT / "examples").rglob("*.py"):
        yield file, file.read_text(encoding="utf-8")


def test_docs_and_examples_import_public_names_only() -> None:
    used = [(file, module, name) for file, code in programs() for module, name in imports_of(code)]
    assert len(used) > 10
    private = [
        (str(file.relative_to(ROOT)), module, name)
        for file, module, name in used
        if module not in PUBLIC_MODULES or (module == "headgate" and name and name not in headgate.__all__)
    ]
    assert private == []


def test_an_import_from_within_the_package_is_found() -> None:
    code = "import headgate.core\nfrom headgate.core.locks.model import Lock\nheadgate.connect()\n"
    assert sorted(imports_of(code)) == [
        ("headgate", "connect"),
        ("headgate.core", ""),
        ("headgate.core.locks.model", "Lock"),
    ]
