"""A store is created by the first process; foreign nodes are refused; a URL is read exactly."""

import json
from typing import Any

import pytest
from kazoo.client import KazooClient

from headgate import BadValue, ForeignStore, SchemaMismatch, StoreUnavailable
from headgate.stores.zookeeper.address import parse
from headgate.stores.zookeeper.ensemble import tries
from headgate.stores.zookeeper.store import open_zookeeper
from tests.contract.steps import SHARED, in_thread, request_for
from tests.zookeeper.conftest import OpenStore


@pytest.mark.parametrize(
    ("url", "hosts", "root"),
    [
        ("zookeeper://one", "one:2181", "/headgate"),
        ("zookeeper://one:99/", "one:99", "/headgate"),
        ("zookeeper://one:1,two:2,three/a/b/", "one:1,two:2,three:2181", "/a/b/headgate"),
        ("zookeeper://[::1]:77/x", "[::1]:77", "/x/headgate"),
        ("zookeeper://one/with%20blank", "one:2181", "/with blank/headgate"),
    ],
)
def test_a_url_names_hosts_and_a_folder(url: str, hosts: str, root: str) -> None:
    address = parse(url)
    assert (address.hosts, address.tree.root, address.name) == (hosts, root, url)


def test_options_are_in_the_query() -> None:
    address = parse("zookeeper://one/a?session=4&patience=1.5")
    assert (address.session, address.patience) == (4.0, 1.5)


@pytest.mark.parametrize(
    "url",
    [
        "zookeeper://", "zookeeper:///a", "zookeeper://one:port", "zookeeper://one:99999", "zookeeper://one,,two",
        "zookeeper://one two", "zookeeper://one/../a", "zookeeper://one/a#b", "zookeeper://one/zookeeper",
        "zookeeper://one?colour=red", "zookeeper://one?session=", "zookeeper://one?session=0",
        "zookeeper://one?patience=nan", "zookeeper://[::1", "zookeeper://one/a%00b",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_read_is_refused(url: str) -> None:
    with pytest.raises(BadValue, match="url"):
        open_zookeeper(url)


def test_a_password_is_never_shown() -> None:
    address = parse("zookeeper://ann:secret@one/a")
    assert "secret" not in address.name
    assert address.auth == [("digest", "ann:secret")]
    with pytest.raises(BadValue) as error:
        parse("zookeeper://ann:secret@one/a?colour=red")
    assert "secret" not in str(error.value)


def test_a_client_without_the_password_cannot_use_a_protected_tree(url: str, open_store: OpenStore) -> None:
    own = open_store(url.replace("zookeeper://", "zookeeper://ann:secret@"))
    own.acquire(request_for("a", ("r", SHARED)))
    with pytest.raises(BadValue, match="may not access"):
        open_zookeeper(url)
    again = open_store(url.replace("zookeeper://", "zookeeper://ann:secret@"))
    assert again.tag == own.tag
    owner = KazooClient(hosts=url.split("/")[2], auth_data=[("digest", "ann:secret")])
    owner.start()
    owner.delete(f"/{url.rpartition('/')[2]}", recursive=True)
    owner.stop()
    owner.close()


def test_processes_that_open_an_empty_folder_at_once_find_one_store(open_store: OpenStore) -> None:
    futures = [in_thread(open_store) for _ in range(8)]
    assert len({future.result(timeout=30).tag for future in futures}) == 1


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        open_zookeeper("zookeeper://127.0.0.1:1/a?patience=0.5")


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b'"text"', b'{"tag": "xyz"}', b'{"tag": "toolong", "schema": "1"}']
)
def test_a_node_of_another_program_is_refused(url: str, raw: Any, data: bytes) -> None:
    raw.create(f"/{url.rpartition('/')[2]}/headgate", data, makepath=True)
    with pytest.raises(ForeignStore, match="of another program"):
        open_zookeeper(url)
    assert raw.get_children(f"/{url.rpartition('/')[2]}/headgate") == []


@pytest.mark.parametrize(("schema", "word"), [("2", "newer"), ("0", "older")])
def test_a_store_of_another_schema_is_refused(url: str, raw: Any, schema: str, word: str) -> None:
    data = json.dumps({"tag": "ab12", "schema": schema}).encode()
    raw.create(f"/{url.rpartition('/')[2]}/headgate", data, makepath=True)
    with pytest.raises(SchemaMismatch, match=word):
        open_zookeeper(url)


def test_a_folder_without_permission_to_create_nodes_is_refused(
    url: str, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to another program, and ends with that program's session."""
    monkeypatch.setattr(tries, "BUSY_SECONDS", 0.2)
    raw.create(f"/{url.rpartition('/')[2]}", ephemeral=True)
    with pytest.raises(StoreUnavailable, match="could not be made"):
        open_zookeeper(url)
