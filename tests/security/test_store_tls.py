"""Connections to stores beyond this machine are encrypted, and only to a server whose certificate is verified."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import StoreMisconfigured, StoreUnavailable
from headgate.core.errors import BadValue
from headgate.stores.sql.dialects.mysql.dialect import Mysql
from headgate.stores.sql.dialects.postgresql.session import target_of
from headgate.stores.zookeeper.address import parse
from tests.certificates import Authority
from tests.servers import MariaDB, PostgreSQL, PrivateServer, ZooKeeper

#: The host name of the servers, which resolves to this machine during these tests.
HOST, OTHER_HOST = "store.example", "other.example"
KINDS: dict[str, type[PrivateServer]] = {"postgresql": PostgreSQL, "mariadb": MariaDB, "zookeeper": ZooKeeper}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, authority: Authority) -> Iterator[PrivateServer]:
    with KINDS[request.param](authority.sign(HOST)) as running:
        yield running


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host name resolve to this machine, for everything in this process that uses Python's resolver."""
    ask = socket.getaddrinfo

    def answer(host: Any, *more: Any, **named: Any) -> Any:
        return ask("127.0.0.1" if host in (HOST, OTHER_HOST) else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def url_of(server: PrivateServer, host: str, ca: Path | str = "", mode: str = "") -> str:
    """The server by that name, and the options with the trusted authority, as this kind of store spells them."""
    if isinstance(server, ZooKeeper):
        said = [f"tls={mode or 'verify'}", "patience=2", f"tls_ca={ca}" if ca else ""]
        return f"zookeeper://{host}:{server.secure_port}/secure?{'&'.join(filter(None, said))}"
    if isinstance(server, PostgreSQL):
        # The driver has its own resolver, so it gets the address beside the name.
        said = ["hostaddr=127.0.0.1", f"sslrootcert={ca}" if ca else "", f"sslmode={mode}" if mode else ""]
    else:
        said = [f"tls_ca={ca}" if ca else "", f"tls={mode}" if mode else ""]
    return f"{server.fresh().replace('127.0.0.1', host)}?{'&'.join(filter(None, said))}"


def use(url: str) -> None:
    """Work with a store."""
    with headgate.connect(url) as gate:
        lock = gate.locks.acquire("a", "r", "write", lease=30)
        gate.locks.release(lock)


def test_a_certificate_of_the_authority_for_this_host_is_trusted(server: PrivateServer, authority: Authority) -> None:
    use(url_of(server, HOST, authority.cert))


def test_a_certificate_for_another_host_is_not_trusted(server: PrivateServer, authority: Authority) -> None:
    with pytest.raises(StoreMisconfigured, match=r"(?i)match"):
        use(url_of(server, OTHER_HOST, authority.cert))


def test_a_certificate_of_an_unknown_authority_is_not_trusted(server: PrivateServer) -> None:
    """Even if the URL asks for no more than a connection; except for ZooKeeper, which has a separate port."""
    with pytest.raises(StoreMisconfigured, match=r"(?i)certificate verify failed.*(root|ca)"):
        use(url_of(server, HOST))


def test_the_url_can_disable_certificate_checks(server: PrivateServer) -> None:
    use(url_of(server, OTHER_HOST, mode="require" if isinstance(server, PostgreSQL) else "unverified"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_certificate_is_not_trusted(kind: str, authority: Authority) -> None:
    with (
        KINDS[kind](authority.sign(HOST, days=-1)) as server,
        pytest.raises(StoreMisconfigured, match="expired"),
    ):
        use(url_of(server, HOST, authority.cert))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_server_without_tls_is_refused_beyond_this_machine(kind: str) -> None:
    """Otherwise an attacker in between need only claim that the server has no TLS."""
    with KINDS[kind]() as server:
        with pytest.raises(StoreMisconfigured, match=r"(?i)does(n't| not) support"):
            use(url_of(server, HOST))
        use(url_of(server, HOST, mode="disable" if kind == "postgresql" else "off"))


def test_a_plain_zookeeper_port_is_recognised() -> None:
    with ZooKeeper() as server, pytest.raises(StoreUnavailable):
        use(f"zookeeper://{HOST}:{server.port}/x?tls=verify&patience=1")


def test_servers_on_this_machine_need_no_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for host in ("127.0.0.1", "localhost", "[::1]", ""):
        assert "sslmode" not in target_of(f"postgresql://u@{host}/d", "store"), host
        assert not Mysql(f"mysql://u@{host}/d")._arguments.get("ssl"), host
    for host in ("db1", "10.0.0.1", "127.0.0.1,db2", "localhost.example", "db.localhost"):
        target = target_of(f"postgresql://u@{host}/d", "store")
        assert "sslmode=verify-full" in target, host
        assert "sslrootcert=system" in target, host
    assert "sslmode=verify-full" in target_of("postgresql://u@localhost/d?hostaddr=10.0.0.1", "store")
    monkeypatch.setenv("PGHOSTADDR", "10.0.0.1")
    assert "sslmode=verify-full" in target_of("postgresql://u@localhost/d", "store")
    monkeypatch.delenv("PGHOSTADDR")
    assert "sslmode=prefer" in target_of("postgresql://u@db1/d?sslmode=prefer", "store")
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    assert "sslrootcert" not in target_of("postgresql://u@db1/d", "store")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@db1/d?tls=maybe", "verify, unverified, off"),
        ("mysql://u@db1/d?tls_ca=/nowhere.pem", "/nowhere.pem"),
        ("mysql://u@db1/d?tls_cert=/dev/null", "give both"),
        ("zookeeper://zk1/x?tls=verfy", "verify, unverified, off"),
        ("zookeeper://zk1/x?tls=off&tls_ca=/dev/null", "has no effect"),
    ],
)
def test_invalid_or_useless_options_are_refused(url: str, words: str) -> None:
    with pytest.raises(BadValue, match=words):
        parse(url) if url.startswith("zookeeper") else Mysql(url)


def test_an_open_ensemble_is_reported() -> None:
    """Without a user anyone can change the nodes; without TLS anyone on the network can read the password."""
    assert parse("zookeeper://127.0.0.1,localhost/x").notices() == []
    assert "without a user" in parse("zookeeper://127.0.0.1,zk2/x").notices()[0]
    (notice,) = parse("zookeeper://ann:secret@zk1/x").notices()
    assert "without TLS" in notice
    assert "secret" not in notice
    assert parse("zookeeper://ann:secret@zk1/x?tls=verify").notices() == []
