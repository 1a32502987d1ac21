"""Fixtures of the fault tests: processes to kill, and the size of each run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Zygote, zygote
from tests.figures import FULL, Report
from tests.fresh import scheme
from tests.shared_servers import Servers

__all__ = ["FULL", "Report"]


@pytest.fixture(scope="session")
def shared_zygote() -> Iterator[Zygote]:
    with zygote() as running:
        yield running


@pytest.fixture
def processes(shared_zygote: Zygote) -> Iterator[Zygote]:
    """Forks processes that the test may kill and stop; all are ended with the test."""
    yield shared_zygote
    shared_zygote.discard_children()


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ignore the environment and files in the working folder."""
    for name in ("URL", "COORDINATION_URL", "CLIENT", "LOCK_DELAY", "GUARDS"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def fresh_url(store_url: str, servers: Servers, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Creates more empty stores on the server of `store_url`."""
    kind = {"mysql": "mariadb"}.get(scheme(store_url), scheme(store_url))
    made: list[str] = []

    def make() -> str:
        made.append(f"sqlite:///{tmp_path}/more{len(made)}.sqlite" if kind == "sqlite" else servers.fresh(kind))
        return made[-1]

    yield make
    for url in made if kind != "sqlite" else ():
        servers.drop(kind, url)
