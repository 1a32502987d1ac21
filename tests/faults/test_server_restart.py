"""The store dies under load and recovers: no acknowledged change is lost, and there are no phantoms."""

import random
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Child, ChildFailed, Message, Zygote
from tests.faults.soundness import check_file, check_store
from tests.servers import PrivateServer

KILLS = 10 if FULL else 2
POWER_CUTS = 200 if FULL else 20
RESOURCES = [f"busy:{number}" for number in range(4)]
#: The work of each worker: acquire and release persistent locks; keep one; keep one with a lease.
CREW = ["labour", "labour", "labour", "labour", "keep", "keep", "hold"]
#: Seconds until it has to work again after the server answers; reconnecting may back off for a few seconds.
BACK_SECONDS = 30.0


@dataclass(slots=True)
class Ledger:
    """What the store has acknowledged, as the workers report it."""

    held: dict[str, int] = field(default_factory=dict)
    #: A release without an answer yet: the lock may be held or not.
    releasing: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    grants: int = 0
    unavailable: int = 0
    stalled: int = 0
    losses: int = 0
    longest: float = 0.0

    def hear(self, message: Message) -> None:
        match message["kind"]:
            case "granted":
                self.grants += 1
                self.held[message["id"]] = message["token"]
                self.tokens.setdefault(message["resource"], []).append(message["token"])
            case "releasing":
                self.releasing[message["id"]] = self.held.pop(message["id"])
            case "released":
                del self.releasing[message["id"]]
            case "unavailable":
                self.unavailable += 1
            case "stalled":
                self.stalled += 1
                self.longest = max(self.longest, message["seconds"])
            case "lost":
                self.losses += 1
            case "checked" | "finished":
                pass
            case _:
                raise ChildFailed(str(message.get("text", message)))


class Crew:
    """Several workers, and the ledger of the answers that they got."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._selector = selectors.DefaultSelector()
        self._children: list[Child] = []
        #: Workers that have reported a success since the last check.
        self._active: set[int] = set()
        self._finished: set[int] = set()

    def add(self, child: Child) -> None:
        self._children.append(child)
        self._selector.register(child.channel.fileno(), selectors.EVENT_READ, child)

    def listen_until(self, condition: Callable[[], bool], what: str, seconds: float = BACK_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise ChildFailed(f"waited {seconds:g} s for {what}: {self._idle()}")
            for key, _ in self._selector.select(0.05):
                self._hear(key.data)

    def see_all_work(self) -> None:
        """Wait until each of them has got an acknowledgement from now on."""
        self._active.clear()
        self.listen_until(lambda: len(self._active) == len(self._children), "every worker to work")

    def finish(self) -> None:
        for child in self._children:
            child.channel.send("stop")
        self.listen_until(lambda: len(self._finished) == len(self._children), "every worker to finish", 120)

    def _idle(self) -> str:
        return f"{[child.pid for child in self._children if child.pid not in self._active]} were not heard"

    def _hear(self, child: Child) -> None:
        messages, gone = child.channel.read_all()
        for message in messages:
            self.ledger.hear(message)
            if message["kind"] in ("granted", "checked", "released"):
                self._active.add(child.pid)
            if message["kind"] == "finished":
                self._finished.add(child.pid)
        if gone:
            raise ChildFailed(f"process {child.pid} has ended")


@pytest.mark.torture
@pytest.mark.timeout(600 if FULL else 120)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "zookeeper"])
def test_a_server_killed_under_load(
    kind: str, private_server: Callable[[str], PrivateServer], processes: Zygote, report: Report
) -> None:
    server = private_server(kind)
    url = server.fresh()
    headgate.connect(url).close()
    crew = start_crew(processes, url)
    chance = random.Random(time.time_ns())
    began, away = time.monotonic(), 0.0
    for _ in range(KILLS):
        crew.see_all_work()
        crew.listen_until(patience(chance.uniform(0.1, 0.4)), "a random moment")
        down = time.monotonic()
        server.kill()
        server.restart()
        away = max(away, time.monotonic() - down)
    crew.see_all_work()
    crew.finish()
    ledger = crew.ledger
    with headgate.connect(url) as gate:
        lost, phantoms = differences(gate, ledger)
        wrong = check_store(gate, url)
    report(
        store=kind, kills=KILLS, grants=ledger.grants, lost=len(lost), phantoms=len(phantoms),
        unavailable=ledger.unavailable, leases_lost=ledger.losses, stalled=ledger.stalled,
        longest_stall=round(ledger.longest, 1), longest_away=round(away, 1), seconds=round(time.monotonic() - began, 1),
    )  # fmt: skip
    assert (lost, phantoms, wrong) == (set(), set(), [])
    assert_no_doubt_left(ledger)
    assert ledger.unavailable + ledger.stalled >= KILLS, "nobody noticed that the server was killed"
    assert ledger.losses == 0, "a lease was lost that had not run out"


def start_crew(processes: Zygote, url: str) -> Crew:
    crew = Crew()
    for number, work in enumerate(CREW):
        resources = RESOURCES if work == "labour" else [f"kept:{number}"]
        crew.add(
            processes.spawn(
                f"tests.faults.labourer:{work}", url=url, name=f"worker{number}", resources=resources, seed=number
            )
        )
    return crew


def patience(seconds: float) -> Callable[[], bool]:
    """True after some time."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


def differences(gate: Gate, ledger: Ledger) -> tuple[set[object], set[object]]:
    """Acknowledged grants that are missing, or have another token; and locks or waiters without an owner."""
    there = {(lock.id, lock.token) for lock in gate.locks.list()}
    known = set(ledger.held.items())
    return set(known - there), set(there - known) | {waiter.ticket for waiter in gate.locks.waiters()}


def assert_no_doubt_left(ledger: Ledger) -> None:
    """Every release was answered in the end; no token was given twice."""
    assert ledger.releasing == {}
    for tokens in ledger.tokens.values():
        assert len(set(tokens)) == len(tokens)


@pytest.mark.torture
@pytest.mark.timeout(600 if FULL else 120)
def test_writers_of_a_file_killed_in_their_transactions(tmp_path: Path, processes: Zygote, report: Report) -> None:
    """SQLite has no server: all its writers are killed at once.

    The file stays consistent, with every acknowledged grant.
    """
    path = tmp_path / "headgate.sqlite"
    url = f"sqlite:///{path}"
    headgate.connect(url).close()
    chance = random.Random(time.time_ns())
    hot, grants, inherited, began = 0, 0, 0, time.monotonic()
    for number in range(POWER_CUTS):
        clients = [f"worker{number}.{place}" for place in range(4)]
        ledger = cut_power(processes, path, chance, clients)
        grants += ledger.grants
        hot += has_hot_journal(path)
        assert check_file(url) == []
        with headgate.connect(url) as gate:
            inherited += assert_acknowledged(gate, ledger, clients)
            assert check_store(gate, url) == []
            for lock in gate.locks.list():
                gate.locks.break_lock(lock.id, reason="its holder was killed")
    report(
        store="sqlite", power_cuts=POWER_CUTS, writers_killed=4 * POWER_CUTS, in_a_transaction=hot, grants=grants,
        handed_to_the_dead=inherited,
        seconds=round(time.monotonic() - began, 1),
    )  # fmt: skip
    assert hot >= POWER_CUTS // 4, "the kills did not hit transactions"


def cut_power(processes: Zygote, path: Path, chance: random.Random, clients: list[str]) -> Ledger:
    """Four writers, all killed at once while one is within a transaction; the answers that they got."""
    crew = Crew()
    children = [
        processes.spawn(
            "tests.faults.labourer:labour",
            url=f"sqlite:///{path}",
            name=client,
            resources=RESOURCES,
            seed=chance.getrandbits(32),
        )
        for client in clients
    ]
    for child in children:
        crew.add(child)
    crew.listen_until(lambda: crew.ledger.grants >= 4, "writers to write")
    crew.listen_until(patience(chance.uniform(0, 0.05)), "a random moment")
    catch_a_transaction(path)
    for child in children:
        child.signal(signal.SIGKILL)
    for child in children:
        child.wait()
        for message in child.channel.read_all()[0]:
            crew.ledger.hear(message)
    processes.discard_children()
    return crew.ledger


def catch_a_transaction(path: Path) -> None:
    """Wait until a writer is within one. Polls without a pause: a transaction takes a few milliseconds."""
    deadline = time.monotonic() + BACK_SECONDS
    while not has_hot_journal(path):
        assert time.monotonic() < deadline, "nobody writes"


def has_hot_journal(path: Path) -> bool:
    """A transaction was interrupted: SQLite's journal, or its write-ahead log, is not empty."""
    return any(side.exists() and side.stat().st_size > 0 for side in (Path(f"{path}-journal"), Path(f"{path}-wal")))


def assert_acknowledged(gate: Gate, ledger: Ledger, clients: list[str]) -> int:
    """All that was acknowledged is there; beyond it, at most the one lock whose answer each writer was waiting for.

    A writer of an earlier round that was killed while it waited keeps its place for a while, and may be handed a lock:
    on trial, so with an end, although it had asked for a persistent one. Returns how many of these there are.
    """
    locks = gate.locks.list()
    assert ledger.held.items() <= {lock.id: lock.token for lock in locks}.items()
    unknown = [lock for lock in locks if lock.id not in ledger.held and lock.id not in ledger.releasing]
    for client in clients:
        assert sum(lock.client == client for lock in unknown) <= 1
    handed = [lock for lock in unknown if lock.client not in clients]
    assert [lock for lock in handed if lock.expires_in is None] == []
    return len(handed)
