"""A missing database, permission, password, table or file is not reported as temporary: it needs an operator."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

import headgate
from headgate import ForeignStore, Gate, StoreMisconfigured
from headgate.http.errors import status_of
from tests.conftest import SQL_STORES
from tests.fresh import mariadb_cursor
from tests.shared_servers import Servers

SERVERS = ["postgresql", "mariadb"]
NAME, PASSWORD = "hg_stranger", "hg-secret"
#: A user without permissions.
NOBODY = 65534


def refused(url: str) -> StoreMisconfigured:
    """Why a store cannot be opened; the password is not shown."""
    with pytest.raises(StoreMisconfigured) as error:
        headgate.connect(url).locks.acquire("a", "r", "write")
    assert error.value.advice in str(error.value)
    assert PASSWORD not in str(error.value)
    assert status_of(error.value) == 503
    return error.value


@pytest.fixture(scope="module")
def stranger(servers: Servers) -> Iterator[Callable[[str, str], str]]:
    """The URL for a user who may connect to any database, but do nothing there."""
    made: list[str] = []

    def url_for(kind: str, url: str) -> str:
        if kind not in made:
            made.append(kind)
            _run(kind, servers.url(kind), _CREATE[kind])
        return make_url(url).set(username=NAME, password=PASSWORD).render_as_string(hide_password=False)

    yield url_for
    for kind in made:
        _run(kind, servers.url(kind), _DROP[kind])


_CREATE = {
    "postgresql": [f"drop role if exists {NAME}", f"create role {NAME} login password '{PASSWORD}'"],
    "mariadb": [f"create or replace user {NAME}@'127.0.0.1' identified by '{PASSWORD}'"],
}
_DROP = {"postgresql": [f"drop role {NAME}"], "mariadb": [f"drop user {NAME}@'127.0.0.1'"]}


def _run(kind: str, url: str, statements: list[str]) -> None:
    if kind == "mariadb":
        with mariadb_cursor(make_url(url)) as cursor:
            for each in statements:
                cursor.execute(each)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_missing_database_is_named(kind: str, servers: Servers) -> None:
    error = refused(make_url(servers.url(kind)).set(database="hg_nowhere").render_as_string(hide_password=False))
    assert "hg_nowhere" in error.why
    assert "reate" in error.advice


@pytest.mark.parametrize("kind", ["mariadb"])
def test_a_wrong_password_is_not_temporary(kind: str, servers: Servers, stranger: Callable[[str, str], str]) -> None:
    """PostgreSQL trusts all users here; its answer to a wrong password is in the tests of its errors."""
    url = make_url(stranger(kind, servers.url(kind))).set(password="wrong")
    assert "password" in refused(url.render_as_string(hide_password=False)).advice


def test_a_missing_user_is_not_temporary(servers: Servers) -> None:
    url = make_url(servers.url("postgresql")).set(username="hg_nobody")
    assert "hg_nobody" in refused(url.render_as_string(hide_password=False)).why


@pytest.mark.parametrize("kind", SERVERS)
def test_a_missing_right_is_not_temporary(kind: str, servers: Servers, stranger: Callable[[str, str], str]) -> None:
    url = servers.fresh(kind)
    headgate.connect(url).close()
    assert "permission" in refused(stranger(kind, url)).advice
    servers.drop(kind, url)


@pytest.mark.parametrize("kind", SQL_STORES)
def test_a_dropped_table_is_not_temporary(kind: str, gate: Gate) -> None:
    """While the store is in use."""
    lock = gate.locks.acquire("a", "r", "write")
    database = gate.store._database  # type: ignore[attr-defined] # a SQL store's
    database.lend(lambda connection: connection.cursor().execute("alter table hg_wait rename to hg_elsewhere"))
    try:
        with pytest.raises(StoreMisconfigured):
            gate.locks.acquire("b", "r", "write")
    finally:
        database.lend(lambda connection: connection.cursor().execute("alter table hg_elsewhere rename to hg_wait"))
    gate.locks.release(lock)


@pytest.fixture
def not_root() -> Iterator[Path]:
    """A folder that its user may read; meanwhile the tests do not run as root."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    os.seteuid(os.getuid())
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_written_is_not_temporary(not_root: Path) -> None:
    file = not_root / "headgate.sqlite"
    headgate.connect(f"sqlite:///{file}").close()
    file.chmod(0o444)
    not_root.chmod(0o755)
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    error = refused(f"sqlite:///{file}")
    assert error.why == f"this user may not write {file}"
    assert "permission" in error.advice


def test_a_folder_that_may_not_be_written_is_not_temporary(not_root: Path) -> None:
    """The file may be: SQLite needs a journal beside it."""
    file = not_root / "headgate.sqlite"
    headgate.connect(f"sqlite:///{file}").close()
    for each in not_root.iterdir():
        each.chmod(0o666)
    Path(f"{file}-journal").unlink(missing_ok=True)
    not_root.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    assert "may not create files" in refused(f"sqlite:///{file}").why


def test_a_folder_in_place_of_a_file_is_not_temporary(tmp_path: Path) -> None:
    assert "is a folder" in refused(f"sqlite:///{tmp_path}").why


def test_a_file_of_something_else_is_not_temporary(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear SQLite, " * 1000)
    with pytest.raises(ForeignStore, match="is not a database of Headgate"):
        headgate.connect(f"sqlite:///{file}")
    assert file.read_text() == "Dear SQLite, " * 1000


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere" in refused(f"sqlite:///{tmp_path}/nowhere/headgate.sqlite").why
