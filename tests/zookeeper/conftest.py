"""Fixtures for behaviour specific to ZooKeeper."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from headgate.stores.zookeeper.store import open_zookeeper
from tests.proxy import FrameProxy
from tests.shared_servers import Servers
from tests.waiting import PATIENT_OPTIONS

OpenStore = Callable[..., ZookeeperLocks]


@pytest.fixture
def url(servers: Servers) -> Iterator[str]:
    """A separate folder on the shared server."""
    fresh = servers.fresh("zookeeper")
    yield fresh
    servers.drop("zookeeper", fresh)


@pytest.fixture
def open_store(url: str) -> Iterator[OpenStore]:
    """Opens any number of stores, each with its own sessions, and closes them at the end."""
    opened: list[ZookeeperLocks] = []

    def open_one(other: str | None = None) -> ZookeeperLocks:
        opened.append(open_zookeeper(other or url, PATIENT_OPTIONS).locks)
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> ZookeeperLocks:
    return open_store()


@pytest.fixture
def proxy(url: str) -> Iterator[FrameProxy]:
    """A proxy before the server, for a store that has to lose answers or connections."""
    host, _, port = url.split("/")[2].partition(":")
    with FrameProxy((host, int(port))) as proxy:
        yield proxy


@pytest.fixture
def proxied(url: str, proxy: FrameProxy, open_store: OpenStore) -> ZookeeperLocks:
    """A store that connects through the proxy."""
    return open_store(f"zookeeper://127.0.0.1:{proxy.port}/{url.rpartition('/')[2]}?patience=10")


@pytest.fixture
def raw(url: str) -> Iterator[Any]:
    """A plain kazoo client, to read behind the store and to damage its nodes."""
    client = KazooClient(hosts=url.split("/")[2])
    client.start()
    yield client
    client.stop()
    client.close()


def expire(store: ZookeeperLocks, url: str) -> None:
    """End the session of a store, as the server would."""
    session = store._sessions.base
    thief = KazooClient(hosts=url.split("/")[2], client_id=session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()
