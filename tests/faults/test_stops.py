"""Connections that stay open and silent, and clients that are stopped inside a transaction: every call ends in time.

A call that does not wait returns within `answer_within`, whatever happened to the network, to the server, or to
another client of the same resource.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

import headgate
from headgate import Gate, HeadgateError, StoreUnavailable
from headgate.stores.options import DEFAULT_OPTIONS
from tests.conftest import fresh_store
from tests.contract.steps import in_thread
from tests.faults import scripts
from tests.faults.conftest import FULL, Report
from tests.faults.crash_cases import CASES
from tests.faults.processes import Child, Zygote
from tests.faults.test_crash_points import need_strace, tracer
from tests.fresh import scheme
from tests.proxy import CLIENT, TO_CLIENT, TO_SERVER, Cut, Proxy
from tests.servers import PrivateServer
from tests.shared_servers import Servers
from tests.waiting import until

#: The time that scheduling may add on a busy machine; far less than any timeout of TCP or of a driver.
MARGIN_SECONDS = 8.0
ANSWER_WITHIN = f"{DEFAULT_OPTIONS.answer_within:g}"
ALLOWED = DEFAULT_OPTIONS.answer_within + MARGIN_SECONDS


@pytest.fixture(autouse=True)
def _prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls here are answered within the promised time."""
    monkeypatch.setenv("HEADGATE_ANSWER_WITHIN", ANSWER_WITHIN)


#: A client that is stopped inside a transaction is disconnected by then, and its resource is free for others.
FREE_SECONDS = 30.0
SERVERS = ["postgresql", "mariadb", "zookeeper"]
pytestmark = pytest.mark.timeout(1800 if FULL else 120)

#: Operations on the slow path: several statements in one transaction, with rows locked between them.
CAREFUL = ["acquire all", "upgrade", "release to a waiter"] if FULL else ["acquire all"]
#: In the short form one in this many messages of an operation.
STRIDE = 1 if FULL else 8
#: In the short form, queries with long answers are sent only under these faults.
ASKED_IN_SHORT = ["silent", "open ones silent"]


@pytest.fixture(params=SERVERS)
def server_url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    yield from fresh_store(request.param, servers, tmp_path)


@pytest.fixture
def proxy(server_url: str) -> Iterator[Proxy]:
    with Proxy(server_url) as proxy:
        yield proxy


@dataclass(slots=True)
class Timed:
    """The longest of some calls."""

    longest: float = 0.0
    calls: int = 0
    unavailable: int = 0

    def call(self, act: Callable[[], object]) -> bool:
        """Whether the store answered, yes or no; the answer, or the error, must arrive in time."""
        began = time.monotonic()
        answered = in_thread(lambda: self._attempt(act))
        until(answered.done, "the call to return", ALLOWED + 110)
        seconds = time.monotonic() - began
        self.calls += 1
        self.longest = max(self.longest, seconds)
        assert seconds < ALLOWED, f"the call took {seconds:.1f} s"
        return answered.result()

    def _attempt(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except StoreUnavailable:
            self.unavailable += 1
            return False
        except HeadgateError:
            return True
        return True


def attempt(gate: Gate, resource: str, client: str = "other") -> Callable[[], object]:
    return lambda: gate.locks.acquire(client, resource, "exclusive", lease=60)


# ------------------------------------------------------------------ the network


def questions(gate: Gate) -> list[Callable[[], object]]:
    """Calls with time for a long answer, but not for a connection without any answer."""
    about_chunks = [lambda: gate.ledger.status("raw"), lambda: gate.ledger.status("raw", dataid="1")]
    return [gate.locks.list, *(about_chunks if gate.keeps_ledger else [])]


@pytest.mark.torture
def test_a_call_ends_when_nothing_passes(server_url: str, proxy: Proxy, report: Report) -> None:
    """Silence both ways, in one direction, on open connections only, half-open; and recovery afterwards."""
    faults: dict[str, Callable[[], None]] = {
        "silent": proxy.hold,
        "no answers": lambda: proxy.hold(TO_CLIENT),
        "no requests": lambda: proxy.hold(TO_SERVER),
        "silent, connects": lambda: proxy.hold(connects=True),
        "open ones silent": lambda: proxy.silence(new_ones=False),
        "half-open": lambda: proxy.strand(CLIENT),
    }
    timed = Timed()
    with headgate.connect(proxy.url) as gate:
        if gate.keeps_ledger:
            gate.ledger.define_dataset("raw")
        for name, fault in faults.items():
            for act in [attempt(gate, f"during:{name}"), *(questions(gate) if FULL or name in ASKED_IN_SHORT else [])]:
                timed.call(attempt(gate, f"before:{time.monotonic()}"))
                fault()
                timed.call(act)
                proxy.heal()
                until(lambda: timed.call(attempt(gate, f"after:{time.monotonic()}")), f"the store after {name}", 60)
    report(
        store=scheme(server_url), faults=len(faults), hit=len(faults), calls=timed.calls, violations=0,
        worst_call=round(timed.longest, 2), unavailable=timed.unavailable,
    )  # fmt: skip
    assert timed.unavailable, "no fault hit a call"


@pytest.mark.torture
def test_a_call_ends_when_its_connection_is_silent_from_some_message_on(
    server_url: str, proxy: Proxy, report: Report
) -> None:
    """Cut at each message of a transaction; the connection stays open. Meanwhile the resource serves others in time."""
    timed, cuts = Timed(), 0
    with headgate.connect(server_url) as direct, headgate.connect(proxy.url) as cut_off:
        for name in CAREFUL:
            for direction in (TO_SERVER, TO_CLIENT):
                number = 1
                while silent_at(name, Cut(direction, number, silent=True), (direct, cut_off), proxy, timed):
                    cuts, number = cuts + 1, number + STRIDE
    report(
        store=scheme(server_url), faults=cuts, hit=cuts, calls=timed.calls, violations=0,
        worst_call=round(timed.longest, 2), unavailable=timed.unavailable,
    )  # fmt: skip
    assert cuts >= 2


def silent_at(name: str, cut: Cut, gates: tuple[Gate, Gate], proxy: Proxy, timed: Timed) -> bool:
    """One cut; False: the operation was over before it."""
    direct, cut_off = gates
    resource = f"silent:{name}:{cut.direction}:{cut.number}"
    ready = CASES[name].prepare(direct, resource)
    # A connection that was silent before is closed first; then an open one has the messages that are counted.
    until(lambda: timed.call(lambda: cut_off.history(limit=1)), "a connection", FREE_SECONDS)
    proxy.arm(cut)
    mine: Future[bool] = in_thread(lambda: timed.call(lambda: scripts.act(cut_off, ready.order)))
    until(lambda: proxy.fired.is_set() or mine.done(), "the cut", 60)
    others = lambda: direct.locks.acquire_all("other", ready.order.get("wants") or {resource: "exclusive"})  # noqa: E731
    timed.call(others)
    mine.result(ALLOWED + 120)
    proxy.disarm()
    proxy.heal()
    if proxy.fired.is_set():
        freed(timed, others, resource)
    return proxy.fired.is_set()


def freed(timed: Timed, others: Callable[[], object], resource: str) -> None:
    """Afterwards the resource answers again: granted, or refused since it is held."""
    until(lambda: timed.call(others), f"{resource} to be usable", FREE_SECONDS)


# ------------------------------------------------------------------ stopped clients


@pytest.mark.torture
@pytest.mark.parametrize("server_url", ["postgresql", "mariadb"], indirect=True)
def test_a_client_that_stands_still_inside_a_transaction_keeps_nobody_waiting(
    server_url: str, proxy: Proxy, processes: Zygote, report: Report
) -> None:
    """SIGSTOP after each statement: others are answered in time, and served soon, although it never continues."""
    timed, stops = Timed(), 0
    with headgate.connect(server_url) as direct:
        number = 1
        while stopped_at(number, direct, proxy, processes, timed):
            stops, number = stops + 1, number + STRIDE
    report(
        store=scheme(server_url), faults=stops, hit=stops, calls=timed.calls, violations=0,
        worst_call=round(timed.longest, 2), unavailable=timed.unavailable,
    )  # fmt: skip
    assert stops >= 2


def stopped_at(number: int, direct: Gate, proxy: Proxy, processes: Zygote, timed: Timed) -> bool:
    """Stop a client when it waits for that answer of the server; False: it was done before."""
    child = processes.spawn("tests.faults.scripts:obey", url=proxy.url, answer_within=ANSWER_WITHIN)
    child.expect("ready")
    resource = f"stopped:{number}"
    order = CASES["acquire all"].prepare(direct, resource).order
    proxy.arm(Cut(TO_CLIENT, number, silent=True))
    child.channel.send(**order)
    until(lambda: proxy.fired.is_set() or not silent(child), "the client to be within", 60)
    if not proxy.fired.is_set():
        return False
    child.stop()
    others = lambda: direct.locks.acquire_all("other", order["wants"])  # noqa: E731
    timed.call(others)
    freed(timed, others, resource)
    child.kill()
    proxy.heal(reset=True)
    return True


def silent(child: Child) -> bool:
    """Whether it has said nothing."""
    messages, gone = child.channel.read_all()
    return not messages and not gone


@pytest.mark.torture
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_a_writer_of_a_file_that_stands_still_keeps_nobody_waiting(
    call: str, tmp_path: Path, processes: Zygote, report: Report
) -> None:
    """SQLite: SIGSTOP within a transaction. Others are answered in time; once it is gone, the file serves them."""
    need_strace()
    url = f"sqlite:///{tmp_path / 'headgate.sqlite'}"
    timed = Timed()
    with headgate.connect(url) as direct:
        for number in (1, 2, 3) if FULL else (2,):
            child = processes.spawn("tests.faults.scripts:obey", url=url)
            child.expect("ready")
            with tracer(child, call, number, "SIGSTOP") as trace:
                child.channel.send(kind="acquire", client="still", resource=f"still:{number}", lease=60)
                until(lambda child=child: child._stands_still() or not silent(child), "it to stand still", 60)  # type: ignore[misc]
                timed.call(attempt(direct, f"other:{call}:{number}"))
                child.kill()
                trace.wait(30)
            until(lambda number=number: timed.call(attempt(direct, f"after:{call}:{number}")), "the file", 60)  # type: ignore[misc]
    report(
        store="sqlite", faults=3 if FULL else 1, hit=3 if FULL else 1, calls=timed.calls, violations=0,
        worst_call=round(timed.longest, 2), unavailable=timed.unavailable,
    )  # fmt: skip


# ------------------------------------------------------------------ stopped servers


@pytest.mark.torture
@pytest.mark.parametrize("kind", SERVERS)
def test_a_call_ends_when_the_server_stands_still(
    kind: str, private_server: Callable[[str], PrivateServer], report: Report
) -> None:
    """SIGSTOP to the server: connections stay open, the kernel accepts new ones, nothing answers."""
    server = private_server(kind)
    timed = Timed()
    with headgate.connect(server.fresh()) as gate:
        for number in range(5 if FULL else 1):
            timed.call(attempt(gate, f"before:{number}"))
            server.pause()
            timed.call(attempt(gate, f"during:{number}"))
            server.resume()
            until(lambda: timed.call(attempt(gate, f"after:{time.monotonic()}")), "the store", 60)
    report(
        store=kind, faults=5 if FULL else 1, hit=timed.unavailable, calls=timed.calls, violations=0,
        worst_call=round(timed.longest, 2),
    )  # fmt: skip
    assert timed.unavailable, "the pause hit no call"
