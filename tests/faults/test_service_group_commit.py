"""A service is killed while many callers share its commits: all of its answers are kept, and nothing is partly done."""

import http.client
import json
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import headgate
from tests.faults.conftest import FULL, Report
from tests.faults.services import Service
from tests.waiting import until

CALLERS = 32
#: How often the service is killed, and after how many answers each time.
KILLS, ANSWERS = (30, 400) if FULL else (2, 150)


class Callers:
    """Threads that request pairs of locks, until the service is killed."""

    def __init__(self, service: Service, round_number: int) -> None:
        self._service = service
        self._round = round_number
        self.granted: list[tuple[str, int]] = []
        self.refused = 0
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CALLERS)]
        for each in self._threads:
            each.start()

    def join(self) -> None:
        for each in self._threads:
            each.join()

    def _run(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=60)
        try:
            for turn in count():
                pair = f"{self._round}:{number}:{turn}"
                self._ask(connection, {f"{pair}:one": "exclusive", f"{pair}:two": "exclusive"})
                self._ask(connection, {f"{pair}:three": "exclusive", "taken": "exclusive"})
        except (OSError, http.client.HTTPException):  # It was killed.
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection, resources: dict[str, str]) -> None:
        body = json.dumps({"client": "c", "resources": resources})
        headers = {"Authorization": f"Bearer {self._service.token}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/locks", body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if answer.status == 409:
            self.refused += 1
            return
        assert answer.status == 201, found
        self.granted += [(each["resource"], each["token"]) for each in found["locks"]]


def changes(path: Path) -> int:
    """How many transactions have changed the file; SQLite counts them."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(28)[24:])


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 240)
def test_a_service_killed_amid_shared_commits_keeps_what_it_answered(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "headgate.sqlite"
    url = f"sqlite:///{path}?journal_mode=truncate"
    with headgate.connect(url) as gate:
        gate.locks.acquire("holder", "taken", "exclusive")
    service = Service(tmp_path, url)
    granted: list[tuple[str, int]] = []
    answers = commits = 0
    try:
        for number in range(KILLS):
            service.wait()
            before = changes(path)
            callers = Callers(service, number)
            until(lambda callers=callers: len(callers.granted) + callers.refused > ANSWERS, "answers", 120)  # type: ignore[misc]
            if number + 1 < KILLS:
                service.kill()
            else:
                service.discard()  # No further attempt is needed.
            callers.join()
            commits += changes(path) - before
            granted += callers.granted
            answers += len(callers.granted) // 2 + callers.refused
    finally:
        service.discard()
    wrong = [*untrue(url, granted)]
    report(store="sqlite", kills=KILLS, answers=answers, commits=commits, violations=len(wrong))
    assert wrong == []
    assert commits < answers, "no two calls shared a commit"


def untrue(url: str, granted: list[tuple[str, int]]) -> Iterator[str]:
    """Locks that were answered and are not held, and pairs of which only one is."""
    with headgate.connect(url) as gate:
        held = {(lock.resource, lock.token) for lock in gate.locks.list()}
    yield from (f"answered, and not held: {each}" for each in granted if each not in held)
    names = {name for name, _ in held}
    yield from (f"half done: {name}" for name in names if name.endswith("one") and f"{name[:-3]}two" not in names)
    yield from (f"half done: {name}" for name in names if name.endswith("two") and f"{name[:-3]}one" not in names)
    yield from (f"of a refused call: {name}" for name in names if name.endswith("three"))
