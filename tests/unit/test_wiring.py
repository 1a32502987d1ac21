"""From a URL to a gate: unknown schemes and settings are refused before anything is created."""

import ast
import os
import tempfile
from pathlib import Path

import pytest

import headgate
from headgate import BadValue, ForeignStore, NoStore, StoreMisconfigured, StoreUnavailable
from headgate.cli.service.daemons import daemon
from headgate.daemon_wiring import MAKERS
from headgate.daemons.names import CONSUMERS, ROUNDS
from headgate.store_opening import open_store

NOBODY = 65534
#: How a gate is opened, and how it is closed.
MAKES_AND_ENDS = {"__init__", "narrowed", "close", "connect"}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("URL", "COORDINATION_URL", "CLIENT", "LOCK_DELAY", "GUARDS"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        "headgate.db",
        "oracle://host/db",
        "redis://host",
        "file:///x.db",
        "sqlite",
        "sqlite:/x.db",
        "://x",
        "SQLITE:///x",
    ],
)
def test_a_url_of_an_unknown_kind_is_named_and_the_kinds_are_listed(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="is not a supported URL") as error:
        headgate.connect(url)
    assert error.value.what == "url"
    assert repr(url) in str(error.value)
    assert "sqlite:///file" in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", [7, b"sqlite:///x.db", ["sqlite:///x.db"]])
def test_a_url_that_is_not_text_is_refused(url: object) -> None:
    with pytest.raises(BadValue, match="url"):
        open_store(url)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("sqlite://host/x.db", "has a host"),
        ("sqlite:///x.db?journal_mode=off", "journal_mode"),
        ("sqlite:///x.db?mode=ro", "'mode' is unknown"),
        ("mysql://me@host/", "does not name a database"),
        ("mysql://me@host", "does not name a database"),
        ("mysql://me@host/db?charset=latin1", "'charset' is unknown"),
        ("mysql://me@host:port/db", "port"),
        ("mysql://me@host:99999/db", "port"),
        ("zookeeper://", "zookeeper"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, word: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=word):
        headgate.connect(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "oracle://me:s3cret@host/db",
        "mysql://me:s3cret@host:port/db",
        "mysql://me:s3cret/x@127.0.0.1:1/none",
        "mysql://me:s3cret@host",
        "mysql://me:p@s3cret@127.0.0.1:1/none",
        "postgresql://me:p@s3cret@127.0.0.1:1/none",
        "postgresql://me:s3cret@host:port/none",
        "postgresql://127.0.0.1:1/none?password=s3cret",
        "postgresql://127.0.0.1:1/none?password=s3cret&nonsense=1",
    ],
)
def test_no_error_about_a_url_shows_its_password(url: str) -> None:
    with pytest.raises((BadValue, StoreUnavailable)) as error:
        headgate.connect(url)
    assert "s3cret" not in str(error.value)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(BadValue, match="setting 'lock_delayed' is unknown"):
        headgate.connect("sqlite:///x.db", lock_delayed="5")


def test_an_unknown_guard_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="guard 's3' is not installed; available: file"):
        headgate.connect("sqlite:///x.db", guards="file, s3")
    assert list(tmp_path.iterdir()) == []


def test_a_typo_in_the_settings_file_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text('lock_dely = "5"')
    with pytest.raises(BadValue, match="did you mean 'lock_delay'"):
        headgate.connect("sqlite:///x.db")
    assert not (tmp_path / "x.db").exists()


def test_settings_name_the_store_when_no_url_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADGATE_URL", f"sqlite:///{tmp_path}/named.db")
    with headgate.connect() as gate:
        gate.locks.acquire("a", "r", "write")
    assert (tmp_path / "named.db").exists()


def test_without_a_url_the_store_is_found_and_not_created(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="headgate init"):
        headgate.connect()
    monkeypatch.setenv("HEADGATE_URL", "sqlite:///headgate.db")  # It would depend on the working folder.
    with pytest.raises(NoStore, match=r"headgate init \(it is named by variable HEADGATE_URL\)"):
        headgate.connect()
    monkeypatch.delenv("HEADGATE_URL")
    assert list(tmp_path.iterdir()) == []
    headgate.connect("sqlite:///headgate.db").close()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with headgate.connect() as gate:
        assert gate.settings["url"] == f"sqlite:///{tmp_path}/headgate.db"
        assert gate.work_folder == tmp_path / "headgate-work"


def test_a_database_in_memory_is_gone_with_its_gate() -> None:
    with headgate.connect("sqlite://") as gate:
        gate.locks.acquire("a", "r", "write")
        assert len(gate.locks.list()) == 1
    with headgate.connect("sqlite://") as gate:
        assert gate.locks.list() == []


def test_a_file_that_is_not_a_database_is_left_as_it_is(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear colleagues, " * 100)
    before = letter.read_bytes()
    with pytest.raises(ForeignStore, match="is not a database of Headgate"):
        headgate.connect(f"sqlite:///{letter}")
    assert letter.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter.txt"]


def said_to_another_user(url: str) -> str:
    """The output of connecting as an unprivileged user, in a separate process; root may do everything."""
    headgate.connect("sqlite://").close()  # Load everything that the other user could not read.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            headgate.connect(url)
        except StoreMisconfigured as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said:
        return said.read()


def test_a_place_without_permission_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name, "headgate.db")
        folder.chmod(0o555)
        assert f"this user may not create files in {folder}" in said_to_another_user(f"sqlite:///{file}")
        folder.chmod(0o755)
        file.touch(0o200)
        assert f"this user may not read {file}" in said_to_another_user(f"sqlite:///{file}")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreMisconfigured, match=r"the folder .*nowhere does not exist"):
        headgate.connect(f"sqlite:///{tmp_path}/nowhere/headgate.db")


def test_the_package_starts_without_its_heavy_parts() -> None:
    assert headgate.__version__
    with pytest.raises(AttributeError, match="conect"):
        _ = headgate.conect


def test_every_daemon_can_be_created_and_is_reported() -> None:
    assert tuple(MAKERS) == ROUNDS
    told = (daemon.help or "").replace(",", " ").replace(".", " ").split()
    # Only in the spelling of Merritt's library.
    assert {*ROUNDS, *CONSUMERS} - {"job-storing"} <= set(told)


def test_wiring_only_joins_parts_and_a_gate_only_offers_them() -> None:
    """A use case has its own service: code that decides or loops does not belong here."""
    wiring, gate = (Path(headgate.__file__).parent / name for name in ("wiring.py", "gate.py"))
    assert len(wiring.read_text().splitlines()) < 150
    assert not [node for node in ast.walk(ast.parse(wiring.read_text())) if isinstance(node, ast.ClassDef | ast.For)]
    methods = [node for node in ast.walk(ast.parse(gate.read_text())) if isinstance(node, ast.FunctionDef)]
    long = [each.name for each in methods if len(_acts(each)) > 2 and each.name not in MAKES_AND_ENDS]
    assert long == []


def _acts(function: ast.FunctionDef) -> list[ast.stmt]:
    """Statements other than the docstring and imports."""
    said = [each for each in function.body if not isinstance(each, ast.ImportFrom)]
    return said[1:] if ast.get_docstring(function) else said
