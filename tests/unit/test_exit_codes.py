"""Exit codes: one table, with one meaning for each code."""

import ast
import inspect
from pathlib import Path

import pytest

from headgate.cli.terminal import failures
from headgate.cli.terminal.failures import EXIT_CODES, MEANINGS
from headgate.core import errors

ROOT = Path(__file__).parents[2]


def test_every_error_has_a_code_of_the_table() -> None:
    kinds = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.HeadgateError)]
    found = {
        kind.__name__: next(code for base, code in EXIT_CODES if issubclass(kind, base))
        for kind in kinds
        if kind is not errors.HeadgateError
    }
    assert set(found.values()) == {2, 69, 75, 76, 77} <= set(MEANINGS)
    assert found["LockRefused"] == found["ClaimRefused"] == 75
    assert found["LockLost"] == found["ClaimLost"] == 76
    assert {name for name, code in found.items() if code == 77} == {"NotOwner", "NotAllowed", "WrongKey"}
    assert {name for name, code in found.items() if code == 69} == {
        "Unavailable", "StoreUnavailable", "ServiceUnavailable", "StorageGuardFailed",
    }  # fmt: skip


def numbers_of(path: Path) -> list[str]:
    """Places where a command exits with a literal number: returned, raised or set as a constant."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        values: list[ast.expr | None] = []
        codes = set(MEANINGS) - {0, 1}
        if isinstance(node, ast.Return):
            values = [node.value, *([node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [])]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Exit", "_exit", "SystemExit")):
            values = list(node.args)
        elif isinstance(node, ast.Assign):
            values, codes = [node.value], codes - {2, 3}  # These may be any number: a gap, a limit.
        numbers = [each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, int)]
        found += [f"{path.name}:{getattr(node, 'lineno', 0)}: {number}" for number in numbers if number in codes]
    return found


def test_no_command_exits_with_a_literal_number() -> None:
    files = [path for path in (ROOT / "src/headgate/cli").rglob("*.py") if path != Path(failures.__file__)]
    assert [each for path in files for each in numbers_of(path)] == []


@pytest.mark.parametrize("page", ["docs/reference/commands.md", "docs/reference/errors.md"])
def test_the_reference_has_the_table(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    flat = " ".join(text.split())
    assert all(" ".join(meaning.split()) in flat for meaning in MEANINGS.values())
