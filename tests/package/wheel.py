"""The built wheel in virtual environments with the packages of its metadata, and no others."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def build(folder: Path) -> Path:
    """The wheel, built without network from a copy of its files in the repository."""
    tree = folder / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    where = ["--quiet", "--wheel-dir", str(folder)]
    _run([*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", *where, str(tree)])
    return next(folder.glob("*.whl"))


def install(wheel: Path, venv: Path, *extras: str) -> Path:
    """The wheel in a new virtual environment, with the core's packages and those of the extras; its programs' folder.

    The packages are those of this environment, linked: what is not asked for cannot be imported.
    """
    _run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
    target = next((venv / "lib").glob("python3*")) / "site-packages"
    for each in _needed(wheel, extras):
        for name in {Path(file).parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            if not (target / name).exists():
                (target / name).symlink_to(str(each.locate_file(name)))
    _run(
        [
            *PIP,
            "--python",
            str(venv / "bin/python"),
            "install",
            "--quiet",
            "--no-compile",
            "--no-deps",
            "--no-index",
            str(wheel),
        ]
    )
    return venv / "bin"


def metadata(wheel: Path) -> list[str]:
    """The requirements of the wheel."""
    with zipfile.ZipFile(wheel) as content:
        name = next(each for each in content.namelist() if each.endswith(".dist-info/METADATA"))
        lines = content.read(name).decode().partition("\n\n")[0].splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def _needed(wheel: Path, extras: tuple[str, ...]) -> Iterator[Distribution]:
    """All required packages, including indirect ones."""
    seen: set[str] = {"headgate"}
    left = list(_chosen(metadata(wheel), extras))
    while left:
        wanted = left.pop()
        found = distribution(wanted.name)
        if found.name.lower() not in seen:
            seen.add(found.name.lower())
            yield found
        left += [each for each in _chosen(found.requires or [], tuple(wanted.extras)) if each.name.lower() not in seen]


def _chosen(lines: list[str], extras: tuple[str, ...]) -> Iterator[Requirement]:
    for line in lines:
        each = Requirement(line)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield each


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
