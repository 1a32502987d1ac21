"""The servers that the other tests depend on start, die, hang and recover as documented."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from tests.ensemble import ZooKeeperEnsemble
from tests.fresh import scheme, zookeeper_client
from tests.servers import KINDS, PrivateServer, ServerFailed, is_alive
from tests.shared_servers import Servers
from tests.waiting import until

Factory = Callable[[str], PrivateServer]
ROOT = Path(__file__).parents[2]
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_committed_writes_survive_a_kill(kind: str, private_server: Factory) -> None:
    server = private_server(kind)
    url = server.fresh()
    remember(url, "sluice")

    old_pid = server.pid
    server.kill()
    assert not server.running
    assert not server.answers()

    server.restart()
    assert server.pid != old_pid
    assert recall(url) == "sluice"


@every_kind
def test_an_orderly_restart_keeps_the_port_and_the_data(kind: str, private_server: Factory) -> None:
    server = private_server(kind)
    url = server.fresh()
    remember(url, "weir")
    server.restart()
    assert recall(url) == "weir"


@every_kind
def test_a_paused_server_answers_again_after_resume(kind: str, private_server: Factory) -> None:
    server = private_server(kind)
    server.pause()
    assert server.running
    assert not server.answers()
    server.resume()
    until(server.answers, f"{kind} to answer after resume")


@every_kind
def test_a_paused_server_can_be_killed_and_restarted(kind: str, private_server: Factory) -> None:
    server = private_server(kind)
    server.pause()
    server.kill()
    server.restart()
    assert server.answers()


@every_kind
def test_a_discarded_server_leaves_nothing(kind: str, private_server: Factory) -> None:
    server = private_server(kind)
    pid, folder = server.pid, server.folder
    server.discard()
    assert not is_alive(pid)
    assert not folder.exists()


@every_kind
def test_a_killed_test_run_leaves_no_server_behind(kind: str) -> None:
    """Even if the server was suspended at that moment, with all its child processes."""
    program = (
        "import sys\n"
        "from tests.servers import KINDS\n"
        "from tests.supervise import descendants\n"
        "server = KINDS[sys.argv[1]]().start()\n"
        "server.pause()\n"
        "print(server.folder, server.pid, *descendants(server.pid), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, kind],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        folder, *pids = run.stdout.readline().split()
        assert all(is_alive(int(pid)) for pid in pids)
        os.kill(run.pid, signal.SIGKILL)

    until(lambda: not any(is_alive(int(pid)) for pid in pids), f"{kind} to be taken down")
    until(lambda: not Path(folder).exists(), f"{folder} to be removed")


def test_a_server_that_cannot_start_says_why(private_server: Factory) -> None:
    server = private_server("postgresql")
    server.stop()
    (server.data / "PG_VERSION").write_text("1\n")
    with pytest.raises(ServerFailed, match="incompatible with server"):
        server.start()


def test_an_ensemble_elects_another_leader(zookeeper_ensemble: ZooKeeperEnsemble) -> None:
    url = zookeeper_ensemble.fresh()
    remember(url, "lock gate")
    fallen = zookeeper_ensemble.leader()
    fallen.kill()

    assert zookeeper_ensemble.leader() is not fallen
    assert recall(url) == "lock gate"

    fallen.restart()
    assert fallen.mode() == "follower"


def test_a_fresh_store_is_empty_and_usable(store_url: str) -> None:
    remember(store_url, "penstock")
    assert recall(store_url) == "penstock"


@every_kind
def test_a_dropped_store_is_gone_even_if_it_was_in_use(kind: str, servers: Servers) -> None:
    url = servers.fresh(kind)
    other = servers.fresh(kind)
    remember(url, "spillway")
    remember(other, "culvert")
    if kind == "zookeeper":
        servers.drop(kind, url)
        assert not exists(url)
    else:
        with engine_of(url).connect() as open_transaction:
            open_transaction.execute(text("SELECT word FROM memory"))
            servers.drop(kind, url)
            open_transaction.invalidate()
        assert not exists(url)
    assert recall(other) == "culvert"
    servers.drop(kind, other)


def remember(url: str, word: str) -> None:
    if scheme(url) == "zookeeper":
        with zookeeper_client(server_of(url)) as client:
            client.create(f"{path_of(url)}/memory", word.encode(), makepath=True)
        return
    with engine_of(url).begin() as connection:
        connection.execute(text("CREATE TABLE memory (word VARCHAR(20))"))
        connection.execute(text("INSERT INTO memory VALUES (:word)"), {"word": word})


def recall(url: str) -> str:
    if scheme(url) == "zookeeper":
        with zookeeper_client(server_of(url)) as client:
            return str(client.get(f"{path_of(url)}/memory")[0].decode())
    with engine_of(url).connect() as connection:
        return str(connection.execute(text("SELECT word FROM memory")).scalar_one())


def exists(url: str) -> bool:
    if scheme(url) == "zookeeper":
        with zookeeper_client(server_of(url)) as client:
            return client.exists(path_of(url)) is not None
    try:
        engine_of(url).connect().close()
    except OperationalError:
        return False
    return True


def engine_of(url: str) -> Engine:
    return create_engine(make_url(url).set(drivername=DRIVERS[scheme(url)]), poolclass=NullPool)


def server_of(url: str) -> str:
    return url.rpartition("/")[0]


def path_of(url: str) -> str:
    return "/" + url.rpartition("/")[2]
