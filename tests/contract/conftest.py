"""Fixtures of the contract: one suite, four stores, and a service that represents one of them.

Creating a schema takes up to a second, so each worker creates it once per database and empties the tables between
tests. The first opening is tested in tests/unit/test_sql_opening.py, on databases that are really new.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

import headgate
from headgate.stores.ports.locks import LockStore
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.opening import open_database
from headgate.stores.sql.schema import metadata
from tests.conftest import STORES
from tests.contract.over_http import HTTP, OpenLocks, Spokesman, is_apart
from tests.contract.steps import Gates
from tests.shared_servers import Servers
from tests.waiting import PATIENT_OPTIONS

#: The identity of the store, which stays.
KEPT_TABLES = {"hg_meta"}
USED_TABLES = Statement(
    "Tables with rows.",
    " union ".join(
        f"select '{table.name}' from {table.name}"  # noqa: S608 - our own names
        for table in metadata.sorted_tables
        if table.name not in KEPT_TABLES
    ),
)
NO_MASTERS = Statement(
    "No master key is known, and every one is taken.",
    "delete from hg_meta where name = 'min_decrypt_version' or substr(name, 1, 13) = 'master_check.'",
)
NO_PAST = Statement(
    "There was no failover, and no history was removed.",
    "delete from hg_meta where name in ('token_floor', 'tokens_raised', 'history_since')",
)
NEW_TAG = Statement("Another store, with ids of its own.", "update hg_meta set value = :tag where name = 'tag'")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that do not concern a service; the reasons are in APART."""
    apart = [item for item in items if is_apart(item)]
    config.hook.pytest_deselected(items=apart)
    items[:] = [item for item in items if not is_apart(item)]


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment and files in the working folder have no effect."""
    for name in (
        "URL",
        "COORDINATION_URL",
        "SERVER",
        "API_TOKEN",
        "CLIENT",
        "LOCK_DELAY",
        "GUARDS",
        "JOB_KEY",
        "JOB_KEY_FILE",
        "MASTER_KEY_FILE",
    ):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=[*STORES, HTTP])
def kind(request: pytest.FixtureRequest) -> str:
    """One of the four stores, or the service."""
    return str(request.param)


class Prepared:
    """A database with a schema, as new for each test. Its connection stays open, because a new one knows nothing of the
    server.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._database = open_database(url, PATIENT_OPTIONS)

    def empty(self) -> None:
        """No locks, no history, and a unique tag."""
        self._database.write(_empty)

    def close(self) -> None:
        self._database.close()


def _empty(tx: Transaction) -> None:
    for (name,) in tx.all(USED_TABLES):
        tx.run(Statement("Empty it.", f"delete from {name}"))  # noqa: S608 - our own names
    tx.run(NO_MASTERS)
    tx.run(NO_PAST)
    _give_tag(tx)


def _give_tag(tx: Transaction) -> None:
    tx.run(NEW_TAG, tag=secrets.token_hex(2))


@pytest.fixture(scope="session")
def spokesman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spokesman]:
    """The service of this worker."""
    prepared = Prepared(f"sqlite:///{tmp_path_factory.mktemp('http')}/headgate.sqlite")
    spokesman = Spokesman(prepared.url, prepared.empty)
    yield spokesman
    spokesman.close()
    prepared.close()


@pytest.fixture(scope="session")
def prepared(servers: Servers) -> Iterator[Callable[[str], Prepared]]:
    """A database on each kind of server, created on first use."""
    with ExitStack() as at_the_end:

        @cache
        def database(kind: str) -> Prepared:
            url = servers.fresh(kind)
            at_the_end.callback(servers.drop, kind, url)
            made = Prepared(url)
            at_the_end.callback(made.close)
            return made

        yield database


@pytest.fixture
def store_url(
    request: pytest.FixtureRequest,
    kind: str,
    prepared: Callable[[str], Prepared],
    empty_store: Path,
    tmp_path: Path,
) -> Iterator[str]:
    """An empty store that nobody else uses meanwhile."""
    if kind == HTTP:
        spokesman: Spokesman = request.getfixturevalue("spokesman")
        environment: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        environment.setenv("HEADGATE_API_TOKEN", spokesman.begin())
        environment.setenv("HEADGATE_SERVER", spokesman.url)
        yield spokesman.url
        return
    servers: Servers = request.getfixturevalue("servers")
    if kind == "zookeeper":
        url = servers.fresh(kind)
        yield url
        servers.leave(kind, url)
        return
    if kind == "sqlite":
        path = shutil.copy(empty_store, tmp_path / "headgate.sqlite")
        database = Database(dialect_for(f"sqlite:///{path}"))
        database.write(_give_tag)
        database.close()
        yield database.name
        return
    prepared(kind).empty()
    yield prepared(kind).url


@pytest.fixture
def gates(store_url: str) -> Iterator[Gates]:
    """Opens any number of gates on the store, and closes them at the end."""
    gates = Gates(store_url)
    yield gates
    gates.close()


@pytest.fixture
def gate(gates: Gates) -> headgate.Gate:
    """A gate on the store."""
    return gates.open()


@pytest.fixture
def store(store_url: str) -> Iterator[LockStore]:
    """The port of its locks, on separate connections."""
    store = OpenLocks(store_url)
    yield store.locks
    store.close()
