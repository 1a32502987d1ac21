"""Services on one store: replicas behind a load balancer, or one that replaces another after a restart."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

import headgate
from headgate import Gate
from headgate.http.port.server import Server
from headgate.http.service import Service


class Replica(NamedTuple):
    """A service with its own gate."""

    gate: Gate
    server: Server

    def client(self, token: str) -> httpx2.Client:
        """A caller with that API token."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.Client(base_url=self.server.url, headers=headers, timeout=60, trust_env=False)


@contextmanager
def replica(url: str, **settings: str) -> Iterator[Replica]:
    """A running service on that store."""
    with headgate.connect(url, **settings) as gate:
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        try:
            yield Replica(gate, server)
        finally:
            server.stop()


@contextmanager
def two_replicas(url: str, **settings: str) -> Iterator[tuple[Replica, Replica]]:
    """Two services on the same store."""
    with ExitStack() as stack:
        yield stack.enter_context(replica(url, **settings)), stack.enter_context(replica(url, **settings))


def contents(url: str) -> dict[str, list[Any]]:
    """Everything that a SQLite store holds, except the records of requests and of presence."""
    with closing(sqlite3.connect(Path(url.removeprefix("sqlite:///")))) as store:
        names = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        kept = [
            name for name in names if name.startswith("hg_") and name not in ("hg_repeat", "hg_api_token", "hg_meta")
        ]
        rows = {name: sorted(map(repr, store.execute(f"select * from {name}"))) for name in kept}  # noqa: S608 - our own names
        return {**rows, "hg_api_token": sorted(store.execute("select id, revoked from hg_api_token"))}


def forget_answers(url: str) -> None:
    """As if the service had died after the effect, and before the answer was stored."""
    with closing(sqlite3.connect(Path(url.removeprefix("sqlite:///")))) as store, store:
        store.execute("update hg_repeat set status = null, answer = null")
