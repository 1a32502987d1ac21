"""The independent validator of OCFL: an external program, in its own environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

#: Created by `make test` from requirements-ocfl.lock; its libraries conflict with ours.
PROGRAM = Path(__file__).parents[2] / ".venv-ocfl/bin/ocfl-validate.py"


#: It supports only the layouts 0002 and 0003, and a root need not declare its layout.
_LAYOUT = "ocfl_layout.json"
#: "SHOULD use sha512": sha256 is allowed, is what depositors and inventories use, and takes half the time.
_ACCEPTED = "[W004]"


#: Run by the validator's own Python: the verdict on each named object, and the codes of its errors.
_SCRIPT = """
import json, sys
from ocfl.validator import Validator
for path in json.load(sys.stdin):
    validator = Validator()
    try:
        valid = validator.validate_object(path)
    except Exception:
        valid = None
    print(json.dumps([valid, sorted({code[:4] for code in validator.log.codes if code.startswith("E")})]))
"""


def verdicts(objects: Sequence[Path]) -> list[tuple[bool | None, set[str]]]:
    """Whether each object is valid, and the codes of its errors. None: the validator ended with a traceback."""
    require()
    command = [str(PROGRAM.with_name("python")), "-c", _SCRIPT]
    paths = json.dumps([str(path) for path in objects])
    done = subprocess.run(command, input=paths, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(valid, set(codes)) for valid, codes in rows]


def build(root: Path, versions: Sequence[Mapping[str, bytes]], *options: str) -> None:
    """Create an object with the program that is part of the validator."""
    require()
    source = root.with_name(f"{root.name}.source")
    for number, files in enumerate(versions, 1):
        for name, content in files.items():
            path = source / f"v{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    program = str(PROGRAM.with_name("ocfl-object.py"))
    command = [str(PROGRAM.with_name("python")), program, "build", "--srcdir", str(source), "--objdir", str(root)]
    subprocess.run([*command, *options], capture_output=True, check=True)


def require() -> None:
    """Skip the test if the validator is not installed, or fail it where nothing may be skipped."""
    if not PROGRAM.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{PROGRAM} is missing: run `make test`, which installs it")
        pytest.skip(f"{PROGRAM} is missing: run `make test`, which installs it")


def validate(*roots: Path) -> None:
    """Fail unless each storage root and every object in it is valid, without warnings except about the digest."""
    require()
    with ExitStack() as stack:
        copies = [stack.enter_context(_without_layout(root)) for root in roots]
        homes = [path.parent for root in roots for path in root.glob("*/*/*/*/0=ocfl_object_1.1")]
        command = [PROGRAM, *copies, *homes]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count(" is VALID") == len(homes), said
    assert [line for line in said.splitlines() if line.startswith("[") and _ACCEPTED not in line] == []


@contextmanager
def _without_layout(root: Path) -> Iterator[Path]:
    copy = root.with_name(f"{root.name}.copy")
    shutil.copytree(root, copy, copy_function=os.link)
    (copy / _LAYOUT).unlink()
    try:
        yield copy
    finally:
        shutil.rmtree(copy)
