"""The built wheel works with the packages of its metadata alone, and reports which extra is missing."""

import os
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.package.wheel import PIP, ROOT, build, install

#: A command, or Python code, that needs the extra.
NEEDS = {
    "postgresql": ["headgate", "lock", "list", "--url", "postgresql://127.0.0.1/x"],
    "mysql": ["headgate", "lock", "list", "--url", "mysql://me@127.0.0.1/x"],
    "zookeeper": ["headgate", "lock", "list", "--url", "zookeeper://127.0.0.1:1/x"],
    "secrets": ["headgate", "keys", "rotate"],
    "ingest": ["headgate", "ingest", "verify"],
    "service": ["headgate", "up", "--once"],
    "s3": ["python", "-c", "import headgate.ingest.storage.s3"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an installation without any extra."""
    return install(wheel, tmp_path_factory.mktemp("core") / "venv")


def run(programs: Path, folder: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "HEADGATE_MASTER_KEY_FILE": str(folder / "ring"),
        **more,
    }
    return subprocess.run(
        [str(programs / words[0]), *words[1:]],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_wheel_has_every_file_of_the_package_and_its_types(wheel: Path) -> None:
    source = ROOT / "src"
    ours = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    assert names == ours
    assert "headgate/py.typed" in names


def test_the_core_alone_works_on_sqlite(core: Path, tmp_path: Path) -> None:
    assert run(core, tmp_path, "headgate", "--version").stdout.startswith("headgate ")
    assert run(core, tmp_path, "headgate", "init").returncode == 0
    locked = run(core, tmp_path, "headgate", "lock", "run", "file:/x", "--", "echo", "held")
    assert (locked.returncode, locked.stdout) == (0, "held\n"), locked.stderr
    told = run(core, tmp_path, "headgate", "history", "--event", "release", "--json")
    assert '"release"' in told.stdout
    once = run(core, tmp_path, "headgate", "daemon", "reaper", "--once")
    assert once.returncode == 0, once.stderr
    kept = run(core, tmp_path, "headgate", "backup", "b.gz")
    assert kept.returncode == 0, kept.stderr
    imported = run(core, tmp_path, "python", "-c", "import headgate; print(headgate.__file__)")
    assert Path(imported.stdout.strip()).is_relative_to(core.parent)


def test_the_core_needs_only_the_packages_in_its_metadata(core: Path) -> None:
    done = subprocess.run(
        [*PIP, "--python", str(core / "python"), "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_there_is_a_case_for_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(NEEDS) == set(project["optional-dependencies"]) - {"all", "bench"}


@pytest.mark.parametrize("extra", NEEDS)
def test_a_missing_dependency_is_reported_with_the_name_of_its_extra(extra: str, core: Path, tmp_path: Path) -> None:
    done = run(core, tmp_path, *NEEDS[extra], HEADGATE_URL=f"sqlite:///{tmp_path}/headgate.db")
    assert done.returncode == (2 if NEEDS[extra][0] == "headgate" else 1)
    assert f'pip install "headgate[{extra}]"' in done.stderr
    assert NEEDS[extra][0] == "python" or "Traceback" not in done.stderr


def test_with_all_extras_the_service_starts_and_stops(wheel: Path, tmp_path: Path) -> None:
    programs = install(wheel, tmp_path / "venv", "all", *NEEDS)
    done = run(programs, tmp_path, "headgate", "up", "--listen", "127.0.0.1:0", "--once")
    assert done.returncode == 0, done.stderr
