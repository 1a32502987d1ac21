"""The service keeps storage guards for as long as their locks exist, across restarts and no matter who ends a lock."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

import headgate
from headgate.core.errors import LockRefused
from headgate.core.locks.model import Lock
from headgate.gate import Gate
from headgate.http.port.server import Server
from headgate.http.service import Service
from tests.contract.steps import told
from tests.contract.test_locks_guards import leave, may, stranger
from tests.shared_servers import Servers
from tests.waiting import until

WAIT = 60.0


class Site:
    """A store, and a service with guards on it that can be stopped and started again."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._running: ExitStack | None = None
        with self.direct() as gate:
            self._token = gate.tokens.new("test", ["admin"]).token

    def direct(self, **more: str) -> Gate:
        """A gate on the store itself."""
        return headgate.connect(**self._settings, **more)

    def start(self) -> None:
        running = ExitStack()
        self.gate = running.enter_context(self.direct(guards="file"))
        server = Server(Service(self.gate), "127.0.0.1:0")
        server.start()
        running.callback(server.stop)
        self.url = server.url
        self.client = running.enter_context(self.connect())
        self._running = running

    def connect(self, **settings: str) -> Gate:
        """A client of the service."""
        return headgate.connect(self.url, token=self._token, **settings)

    def stop(self) -> None:
        if self._running is not None:
            self._running.close()
        self._running = None

    def post(self, path: str, **body: object) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self._token}"}
        return httpx2.post(f"{self.url}/v1/{path}", json=body, headers=headers, timeout=WAIT, trust_env=False)


@pytest.fixture(params=["sqlite", "zookeeper"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    settings = {"url": f"sqlite:///{tmp_path / 'headgate.db'}"}
    servers: Servers | None = None
    if request.param == "zookeeper":
        servers = request.getfixturevalue("servers")
        settings["coordination_url"] = servers.fresh("zookeeper")
    site = Site(settings)
    site.start()
    yield site
    site.stop()
    if servers is not None:
        servers.leave("zookeeper", settings["coordination_url"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_text("content")
    return path


def acquire(there: Site, path: Path, mode: str = "write", **how: Any) -> Lock:
    return there.client.locks.acquire("a", path.as_uri(), mode, **how)


def test_the_guard_of_a_persistent_lock_survives_a_restart(there: Site, path: Path) -> None:
    lock = acquire(there, path)
    assert not may(path, fcntl.LOCK_SH)
    there.stop()
    there.start()
    assert not may(path, fcntl.LOCK_SH)
    assert there.client.faults() == []
    there.client.locks.release(lock)
    assert may(path, fcntl.LOCK_EX)


def test_readers_share_one_real_lock_after_a_restart_too(there: Site, path: Path) -> None:
    locks = [acquire(there, path, "read") for _ in range(3)]
    there.stop()
    there.start()
    opened = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.exists()]
    assert opened.count(path) == 1
    for lock in locks:
        assert not may(path, fcntl.LOCK_EX)
        there.client.locks.release(lock)
    assert may(path, fcntl.LOCK_EX)


def test_a_guard_that_cannot_be_restored_is_reported_until_it_can(there: Site, path: Path) -> None:
    lock = acquire(there, path)
    there.stop()
    with stranger(path, fcntl.LOCK_EX):
        there.start()
        (fault,) = there.client.faults()
        assert (fault.kind, fault.item) == ("unguarded", lock.id)
        assert "outside Headgate" in fault.what
        (listed,) = there.client.locks.list()
        assert "[no storage guard: " in listed.note
        assert "[no storage guard: " in there.client.locks.get(lock.id).note
        leave(path)
        until(lambda: there.client.faults() == [], "the service takes the guard")
        assert not may(path, fcntl.LOCK_SH)
    assert there.client.locks.get(lock.id).note == ""


def test_the_doctor_finds_an_unguarded_lock_while_the_service_is_down(there: Site, path: Path) -> None:
    for mode in ("write", "read"):
        lock = acquire(there, path, mode)
        with there.direct(guards="file") as gate:
            assert gate.faults() == []
        there.stop()
        with there.direct(guards="file") as gate:
            (fault,) = gate.faults()
            assert (fault.kind, fault.item, fault.repair) == ("unguarded", lock.id, "")
        there.start()
        there.client.locks.release(lock)


def is_released_elsewhere(there: Site, path: Path) -> None:
    lock = acquire(there, path)
    with there.direct() as gate:
        gate.locks.release(lock)


def is_broken_elsewhere(there: Site, path: Path) -> None:
    lock = acquire(there, path)
    with there.direct() as gate:
        gate.locks.break_lock(lock.id, reason="it hangs")


@pytest.mark.parametrize("there", ["sqlite"], indirect=True)
def test_a_guard_ends_with_its_lease(there: Site, path: Path) -> None:
    acquire(there, path, lease=0.3)
    until(lambda: may(path, fcntl.LOCK_EX), "the guard is released")


@pytest.mark.parametrize("end", [is_released_elsewhere, is_broken_elsewhere])
def test_a_guard_ends_with_its_lock_no_matter_who_ends_it(
    there: Site, path: Path, end: Callable[[Site, Path], None]
) -> None:
    end(there, path)
    until(lambda: may(path, fcntl.LOCK_EX), "the guard is released")


def in_one_request(there: Site, path: Path) -> None:
    answer = there.post("locks", client="a", resource=path.as_uri(), mode="write", wait=WAIT)
    assert answer.status_code == 201, answer.text


def by_the_client(there: Site, path: Path) -> None:
    acquire(there, path, wait=WAIT)


@pytest.mark.parametrize("ask", [in_one_request, by_the_client])
def test_a_caller_that_waits_for_another_program_is_granted_once(
    there: Site, path: Path, ask: Callable[[Site, Path], None]
) -> None:
    with stranger(path, fcntl.LOCK_EX), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, there, path)
        until(lambda: bool(there.gate.locks._guards._lines), "it waits")
        assert told(there.gate) == []
        leave(path)
        waiting.result()
    assert told(there.gate) == ["grant"]
    assert not may(path, fcntl.LOCK_SH)


@pytest.mark.parametrize("ask", [in_one_request, by_the_client])
def test_a_queue_position_is_kept_while_another_program_holds_the_file(
    there: Site, path: Path, ask: Callable[[Site, Path], None]
) -> None:
    with there.direct() as plain:
        held = plain.locks.acquire("holder", path.as_uri(), "write")
        with stranger(path, fcntl.LOCK_EX), ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ask, there, path)
            until(lambda: bool(plain.locks.waiters()), "it waits")
            plain.locks.release(held)
            with pytest.raises(LockRefused):
                plain.locks.acquire("late", path.as_uri(), "write")
            leave(path)
            waiting.result()
        assert told(plain).count("grant") == 2


def test_a_client_with_the_same_setting_leaves_the_guard_to_the_service(there: Site, path: Path) -> None:
    with there.connect(guards="file") as client:
        lock = client.locks.acquire("a", path.as_uri(), "write")
        assert not may(path, fcntl.LOCK_SH)
        client.locks.release(lock)
    assert may(path, fcntl.LOCK_EX)


def test_a_file_held_by_another_program_is_409_at_once(there: Site, path: Path) -> None:
    with stranger(path, fcntl.LOCK_EX):
        answer = there.post("locks", client="a", resource=path.as_uri(), mode="write")
    assert answer.status_code == 409
    assert "outside Headgate" in answer.text
    assert told(there.gate) == []
