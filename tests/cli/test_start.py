"""The command starts fast: unneeded modules are not imported. Timing is left to benchmarks; this test checks names."""

import subprocess
import sys

import pytest

import headgate as package
from tests.cli.commands import Headgate

HEAVY = {
    "alembic", "asyncio", "cryptography", "kazoo", "mako", "psycopg", "pymysql", "pydantic", "rich", "sqlalchemy",
    "structlog", "typer",
}  # fmt: skip
#: Runs the command, then prints its imported modules on stderr.
PROBE = """
import sys
from headgate.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("\\n" + " ".join(sys.modules))
sys.exit(code)
"""


def modules(command: Headgate, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        capture_output=True,
        env=command.environment(),
        cwd=command.folder,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_the_version_is_printed_before_anything_is_imported(headgate: Headgate) -> None:
    assert headgate("--version").out == f"headgate {package.__version__}\n"
    loaded = modules(headgate, "--version")
    ours = {name for name in loaded if name.startswith("headgate")}
    assert ours == {"headgate", "headgate.cli", "headgate.cli.main"}
    assert not loaded & {"click", "dataclasses", "datetime", "inspect", "json", "logging"}


@pytest.mark.parametrize("words", [["--help"], ["lock", "--help"], ["lock", "run", "--help"], ["settings"]])
def test_help_and_settings_import_no_store(headgate: Headgate, words: list[str]) -> None:
    loaded = modules(headgate, *words)
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith(("headgate.stores", "headgate.service"))}


def test_acquire_and_release_on_sqlite_do_not_import_sqlalchemy(headgate: Headgate) -> None:
    lock = headgate.acquire("made")
    assert not modules(headgate, "lock", "acquire", "other") & HEAVY
    assert not modules(headgate, "lock", "run", "third", "--", "true") & (HEAVY | {"subprocess"})
    for verb in ("check", "renew", "release"):
        assert not modules(headgate, "lock", verb, lock["id"], "--token", "1") & HEAVY


def test_claiming_without_a_key_needs_no_cryptography(headgate: Headgate) -> None:
    (headgate.folder / "pipeline.toml").write_text('[dataset.raw]\n[job.clean]\ninputs = ["raw"]\n')
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", "1..2").code == 0
    assert not modules(headgate, "job", "next", "clean") & HEAVY
    assert not modules(headgate, "job", "run", "clean", "--", "true") & (HEAVY | {"subprocess"})


def test_a_table_for_no_terminal_needs_no_rich(headgate: Headgate) -> None:
    headgate.acquire("made")
    assert "rich" not in modules(headgate, "lock", "list")


def test_as_a_module_it_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "headgate", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"headgate {package.__version__}\n"
