"""Fixtures for every test: real servers, and a fresh empty store on each."""

import gc
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import kazoo.protocol.connection
import kazoo.retry
import pytest

from tests.cli.commands import Headgate
from tests.ensemble import ZooKeeperEnsemble
from tests.figures import FigureBook, Report, told
from tests.servers import PrivateServer
from tests.shared_servers import ServerPool, Servers, ask_owner, in_ci, start_ensemble, start_private
from tests.transitions import TransitionBook
from tests.waiting import PATIENT

SQL_STORES = ["sqlite", "postgresql", "mariadb"]
STORES = [*SQL_STORES, "zookeeper"]
TRANSITIONS = Path(__file__).parents[1] / "docs/reference/transitions.json"

POOL = pytest.StashKey[ServerPool]()

#: A file system in memory: its data survives a killed process, and synchronising it costs nothing.
MEMORY = Path("/dev/shm")  # noqa: S108 - only folders that tempfile makes
#: More than all servers and files of a run need at once.
MEMORY_NEEDED = 2 * 2**30

# The time of an example depends more on the machine's load than on the code.
hypothesis.settings.register_profile("headgate", deadline=None, print_blob=True)
hypothesis.settings.load_profile("headgate")
# hypothesis watches the global random generator. Every living client of kazoo uses it with each ping, in a separate
# thread, whatever test is running: it gets its own generator, so that any other use is noticed.
for _module in (kazoo.protocol.connection, kazoo.retry):
    _module.random = random.Random()


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    """The servers that all tests of the run share, each started on first use."""
    if is_worker(pytestconfig):
        return Servers(ask_owner(worker_input(pytestconfig)["server_desk"]))
    return Servers(pytestconfig.stash[POOL].url)


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    """A fresh, empty store on each of the four engines."""
    yield from fresh_store(request.param, servers, tmp_path)


@pytest.fixture(params=SQL_STORES)
def sql_url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    """A fresh, empty store on each of the three SQL engines."""
    yield from fresh_store(request.param, servers, tmp_path)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store without any events: creating one takes longer than most tests."""
    folder = tmp_path_factory.mktemp("empty")
    path = folder / "headgate.sqlite"
    assert Headgate(f"sqlite:///{path}", folder)("lock", "list").code == 0
    return path


@pytest.fixture
def report(record_property: Callable[[str, Any], None]) -> Report:
    """Record figures: they are printed at the end of the run, one line for each test."""

    def keep(**figures: Any) -> None:
        record_property("figures", figures)

    return keep


@pytest.fixture
def private_server() -> Iterator[Callable[[str], PrivateServer]]:
    """Start a server of the given kind for this test only, which may kill, suspend and restart it."""
    yield from private_server_factory()


@pytest.fixture(scope="module")
def module_private_server() -> Iterator[Callable[[str], PrivateServer]]:
    """The same, for a server that the tests of one file share."""
    yield from private_server_factory()


@pytest.fixture
def zookeeper_ensemble() -> Iterator[ZooKeeperEnsemble]:
    """Three ZooKeeper servers for this test only."""
    ensemble = start_ensemble()
    yield ensemble
    ensemble.discard()


def fresh_store(kind: str, servers: Servers, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'headgate.sqlite'}"
        return
    url = servers.fresh(kind)
    yield url
    servers.leave(kind, url)


def private_server_factory() -> Iterator[Callable[[str], PrivateServer]]:
    with ExitStack() as running:

        def start(kind: str) -> PrivateServer:
            server = start_private(kind)
            running.callback(server.discard)
            return server

        yield start


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def worker_input(config: pytest.Config) -> dict[str, Any]:
    """Data from the run's controller for this xdist worker."""
    handed: dict[str, Any] = config.workerinput  # type: ignore[attr-defined] # xdist adds it
    return handed


def pytest_configure(config: pytest.Config) -> None:
    _hear_signals()
    _be_patient()
    if not is_worker(config):
        _keep_files_in_memory()
        _compile_quickly()
        config.stash[POOL] = ServerPool()
        writes = "HEADGATE_TRANSITIONS" in os.environ
        config.pluginmanager.register(TransitionBook(TRANSITIONS, STORES, writes=writes))
    if path := os.environ.get("HEADGATE_FIGURES"):
        config.pluginmanager.register(FigureBook(Path(path), keeps=not is_worker(config)))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send each xdist worker the address of the servers."""
    node.workerinput["server_desk"] = node.config.stash[POOL].desk_address()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fault tests are long: they come first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: "faults" not in item.path.parts)


def pytest_collection_finish() -> None:
    """The thousands of collected tests are never freed: the garbage collector need not scan them again."""
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if POOL in config.stash:
        config.stash[POOL].discard()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI set no test may be skipped, for whatever reason."""
    if in_ci() and not is_worker(session.config) and skip_reasons(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    show_figures(terminalreporter)
    reasons = skip_reasons(config)
    if reasons:
        consequence = "the run FAILS, for CI is set" if in_ci() else "with CI set the run would fail"
        terminalreporter.section(f"NOT TESTED: {consequence}", sep="!", red=True, bold=True)
        for reason in sorted(reasons):
            terminalreporter.line(f"{reasons[reason]} x {reason}", red=True)


def show_figures(reporter: Any) -> None:
    """The counts and measurements of the fault tests: one line for each."""
    reports = [each for kind in ("passed", "failed") for each in reporter.stats.get(kind, [])]
    found = [(each.nodeid, figures) for each in reports if (figures := told(each))]
    if found:
        reporter.section("figures of the fault tests")
        for node, figures in found:
            test = node.rpartition("::")[2].partition("[")[0].removeprefix("test_")
            reporter.line(f"{test}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))


def skip_reasons(config: pytest.Config) -> dict[str, int]:
    """Each reason why tests were skipped, with its number."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reasons: dict[str, int] = {}
    for report in reporter.stats.get("skipped", []) if reporter else []:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason] = reasons.get(reason, 0) + 1
    return reasons


def _hear_signals() -> None:
    """A run in the background starts with ignored signals, which every process that a test starts would inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _be_patient() -> None:
    """Like the processes that tests start."""
    os.environ.update(PATIENT)


def _keep_files_in_memory() -> None:
    """Servers' data and SQLite files, unless TMPDIR names another place. Servers synchronise there as on a disk."""
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def _compile_quickly() -> None:
    """Servers in Java do not live long enough here to recover the cost of their second compiler."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
