"""No file is longer than 500 lines and no function longer than 50: longer ones should be split."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "examples", "src", "tests", "tools")
LONGEST_FILE, LONGEST_FUNCTION = 500, 50
CODE = (".py", ".sh", ".js", ".css", ".html")


def too_long(file: Path) -> Iterator[str]:
    text, name = file.read_text(encoding="utf-8"), file.relative_to(ROOT)
    if (count := text.count("\n")) > LONGEST_FILE:
        yield f"{name} has {count} lines"
    if file.suffix != ".py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield f"{name}: {node.name} has {lines} lines"


def test_no_file_or_function_is_too_long() -> None:
    found = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in CODE]
    files = [file for file in found if not {"_build", "__pycache__"} & set(file.parts)]
    assert len(files) > 500
    assert [told for file in files for told in too_long(file)] == []
