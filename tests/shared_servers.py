"""One server of each kind for the whole test run, started when the first test asks for it.

The process that the user started owns the servers. Under xdist the tests run in other processes; these ask
the owner for a URL over a socket, so that a server starts once and outlives the worker that asked first.
"""

import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from typing import NoReturn

import pytest

from tests import fresh
from tests.ensemble import ZooKeeperEnsemble
from tests.servers import KINDS, PrivateServer, Unavailable

#: Names an existing server to be used instead of a private one.
VARIABLES = {
    "postgresql": "HEADGATE_TEST_POSTGRESQL",
    "mariadb": "HEADGATE_TEST_MYSQL",
    "zookeeper": "HEADGATE_TEST_ZOOKEEPER",
}

NEVER_EXISTING = "A test that kills and restarts servers never does so to an existing one"


def in_ci() -> bool:
    return bool(os.environ.get("CI"))


class ServerPool:
    """The servers of this run, held by the process that owns the run."""

    def __init__(self) -> None:
        self._started: dict[str, PrivateServer] = {}
        self._desk: Listener | None = None

    def url(self, kind: str) -> str:
        existing = os.environ.get(VARIABLES[kind])
        if existing:
            return existing
        if kind not in self._started:
            self._started[kind] = KINDS[kind]().__enter__()
        return self._started[kind].url

    def discard(self) -> None:
        for server in self._started.values():
            server.discard()
        self._started.clear()

    def desk_address(self) -> str:
        """The address for requests of the workers; opened when the first worker is set up."""
        if self._desk is None:
            # Backlog: every worker may ask at once, while a server is being started for one of them.
            self._desk = Listener(family="AF_UNIX", backlog=64)
            threading.Thread(target=self._serve, args=(self._desk,), daemon=True).start()
        return str(self._desk.address)

    def _serve(self, desk: Listener) -> None:
        while True:
            with desk.accept() as worker:
                try:
                    worker.send(self._answer(worker.recv()))
                except (EOFError, BrokenPipeError, ConnectionResetError):
                    continue  # that worker died; the others still need answers

    def _answer(self, kind: str) -> str | Exception:
        try:
            return self.url(kind)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker that asked raises it
            return error


def ask_owner(address: str) -> Callable[[str], str]:
    """A function that gets a server's URL from the process that owns the run."""

    def url(kind: str) -> str:
        with Client(address, family="AF_UNIX") as owner:
            owner.send(kind)
            answer = owner.recv()
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    return url


class Servers:
    """The view of a test: fresh databases on the shared servers."""

    def __init__(self, url: Callable[[str], str]) -> None:
        self._url = url

    def url(self, kind: str) -> str:
        """The URL of the shared server, which no test may kill."""
        try:
            return self._url(kind)
        except Unavailable as reason:
            cannot_be_had(kind, f"{reason}, or name an existing server in {VARIABLES[kind]}")

    def fresh(self, kind: str) -> str:
        """The URL of a brand-new empty database."""
        return fresh.fresh(self.url(kind))

    def drop(self, kind: str, fresh_url: str) -> None:
        fresh.drop(self.url(kind), fresh_url)

    def leave(self, kind: str, fresh_url: str) -> None:
        """Drop it, but where that goes node by node, which takes longer than most tests, and the server goes soon."""
        if kind != "zookeeper" or os.environ.get(VARIABLES[kind]):
            self.drop(kind, fresh_url)


def start_private(kind: str) -> PrivateServer:
    """A server that the test may kill, suspend and restart; never an existing one."""
    try:
        return KINDS[kind]().__enter__()
    except Unavailable as reason:
        cannot_be_had(kind, f"{reason}. {NEVER_EXISTING}")


def start_ensemble() -> ZooKeeperEnsemble:
    try:
        return ZooKeeperEnsemble().__enter__()
    except Unavailable as reason:
        cannot_be_had("zookeeper", f"{reason}. {NEVER_EXISTING}")


def cannot_be_had(kind: str, reason: str) -> NoReturn:
    """Skip the test, or fail it where nothing may be skipped."""
    message = f"NO {kind.upper()}: {reason}"
    if in_ci():
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
