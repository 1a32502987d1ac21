"""Interrupted between any two steps, every operation happens completely or not at all, and a repeat completes it.

The process is killed before its n-th system call of each kind: those by which SQLite changes its files, those by which
a client of a server sends a statement and hears the answer. And the connection to a server is cut at its n-th message,
before the request arrives, or after it was carried out and before the answer arrives.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import headgate
from headgate import Gate, HeadgateError, StoreUnavailable
from tests.conftest import fresh_store
from tests.faults import scripts
from tests.faults.conftest import FULL, Report
from tests.faults.crash_cases import CASES, Case, await_waiters, whole
from tests.faults.ledger_crash_cases import LEDGER_CASES
from tests.faults.processes import Child, Message, Zygote
from tests.faults.soundness import check_store
from tests.fresh import scheme, sessions
from tests.proxy import TO_CLIENT, TO_SERVER, Cut, Proxy
from tests.shared_servers import Servers, cannot_be_had
from tests.waiting import until

SERVERS = ["postgresql", "mariadb", "zookeeper"]
#: System calls with which SQLite changes its files; each kind is counted separately.
SYSTEM_CALLS = ("openat", "pwrite64", "fdatasync", "ftruncate", "fcntl")
#: System calls of a client of a server: it sends a statement (the last one is the commit), and receives the answer.
CLIENT_CALLS = ("sendto", "recvfrom")
#: Of some calls, the short form cuts only one in this many; all others are cut each.
STRIDE = dict.fromkeys(("pwrite64", "recvfrom"), 1 if FULL else 5)
ON_FILES = [name for name in CASES if name != "give up waiting"]
SHORT_ON_FILES = ["acquire", "acquire all", "release", "release to a waiter"]
#: In the short form: a claim and its report; and, where the caller survives, operations that it may repeat by mistake.
SHORT_ON_LEDGER, SHORT_CUT_ON_LEDGER = ["find next", "find next quickly", "success"], ["find next"]
#: In the short form ZooKeeper, where each cut costs half a second, gets fewer cases.
SHORT_ON_ZOOKEEPER = ["acquire", "release to a waiter"]
#: In the short form, of an operation with many messages, one in this many is cut after the first ones.
EACH, SKIP = (60, 1) if FULL else (4, 4)
#: How often to try to cut the last answer of an operation, if no cut has hit it.
LAST_TRIES = 20


# ------------------------------------------------------------------ files


def need_strace() -> None:
    if shutil.which("strace") is None:
        cannot_be_had("strace", "the program strace is missing: install the Debian package strace")


@pytest.fixture
def file_gate(tmp_path: Path) -> Iterator[Gate]:
    need_strace()
    with headgate.connect(f"sqlite:///{tmp_path / 'headgate.sqlite'}") as gate:
        yield gate


@pytest.mark.torture
@pytest.mark.parametrize("name", ON_FILES if FULL else SHORT_ON_FILES)
def test_killed_at_a_system_call(name: str, file_gate: Gate, tmp_path: Path, processes: Zygote, report: Report) -> None:
    """SQLite: kill -9 before each step that touches the file."""
    url = f"sqlite:///{tmp_path / 'headgate.sqlite'}"
    kill_everywhere(CASES[name], file_gate, url, processes, report)


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 120)
@pytest.mark.parametrize("name", LEDGER_CASES if FULL else SHORT_ON_LEDGER)
def test_a_worker_killed_between_claim_and_report(name: str, sql_url: str, processes: Zygote, report: Report) -> None:
    """Kill -9 before and after each statement, before and after the commit: all or nothing."""
    need_strace()
    with headgate.connect(sql_url) as gate:
        kill_everywhere(LEDGER_CASES[name], gate, sql_url, processes, report)


def kill_everywhere(case: Case, gate: Gate, url: str, processes: Zygote, report: Report) -> None:
    after = whole(case, gate, lambda order: scripts.act(gate, order))
    points, done = 0, 0
    for call in SYSTEM_CALLS if scheme(url) == "sqlite" else CLIENT_CALLS:
        number = 1
        while (happened := kill_at(case, gate, url, processes, (call, number), after)) is not None:
            points, done, number = points + 1, done + happened, number + STRIDE.get(call, 1)
    assert check_store(gate, url) == []
    report(store=scheme(url), act=case.name, kills=points, had_happened=done, had_not=points - done)
    # A fast path is one request and its answer: killed before each, and after both.
    assert points >= (10 if scheme(url) == "sqlite" else 3), "the kills hit nothing"
    assert 0 < done < points


def kill_at(case: Case, gate: Gate, url: str, processes: Zygote, point: tuple[str, int], after: object) -> bool | None:
    """One kill. Returns whether the operation had happened by then; None when it was over before."""
    resource = f"kill:{case.name}:{point[0]}:{point[1]}"
    ready = case.prepare(gate, resource)
    before = case.state(gate, resource)
    connected = sessions(url)
    child = processes.spawn("tests.faults.scripts:obey", url=url)
    child.expect("ready")
    with tracer(child, *point) as trace:
        child.channel.send(**ready.order)
        answer = child.channel.receive()
        if answer is not None:
            child.kill()
        child.wait()
        trace.wait(30)
    until(lambda: sessions(url) <= connected, "the server to notice")
    if ready.waiting and case.state(gate, resource) != before:
        await_waiters(ready)
    found = case.state(gate, resource)
    assert found in (before, after), f"half of it happened at {point}"
    if answer is not None:
        assert found == after
        return None
    if case.repeatable or found == before:
        finish(case, gate, ready.order, happened=found == after)
    await_waiters(ready)
    assert case.state(gate, resource) == after
    return found == after


def tracer(child: Child, call: str, number: int, sends: str = "SIGKILL") -> "subprocess.Popen[str]":
    """Kills the child before its n-th call of that kind from now on, or sends it another signal."""
    inject = f"inject={call}:signal={sends}:when={number}"
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject, "-p", str(child.pid)]
    trace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while tracer_of(child.pid) != trace.pid:
        assert trace.poll() is None, f"strace cannot trace: {trace.stderr.read() if trace.stderr else ''}"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return trace


def tracer_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("TracerPid:"))


def finish(case: Case, gate: Gate, order: Message, *, happened: bool) -> None:
    """Repeat it, as a caller that does not know the outcome."""
    try:
        scripts.act(gate, order)
    except HeadgateError as error:
        repeat = type(error).__name__
        if repeat not in case.done_already or not (happened or case.name == "give up waiting"):
            raise


# ------------------------------------------------------------------ servers


@pytest.fixture(params=SERVERS)
def server_url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    yield from fresh_store(request.param, servers, tmp_path)


@pytest.fixture
def proxy(server_url: str) -> Iterator[Proxy]:
    proxy = Proxy(server_url)
    yield proxy
    proxy.close()


AWAY = pytest.mark.parametrize("stays_away", [False, True], ids=["back at once", "away for a while"])


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 120)
@AWAY
def test_cut_at_a_message(server_url: str, proxy: Proxy, stays_away: bool, report: Report) -> None:
    """The connection is cut at each message, and the server is available again at once, or after a while."""
    zookeeper = server_url.startswith("zookeeper")
    names = SHORT_ON_ZOOKEEPER if zookeeper and not FULL else CASES
    cut_everywhere([CASES[name] for name in names], server_url, proxy, stays_away, report)


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 120)
@AWAY
@pytest.mark.parametrize("server_url", ["postgresql", "mariadb"], indirect=True)
def test_the_ledger_cut_at_a_message(server_url: str, proxy: Proxy, stays_away: bool, report: Report) -> None:
    """The same between a claim and its report."""
    names = LEDGER_CASES if FULL else SHORT_CUT_ON_LEDGER
    cut_everywhere([LEDGER_CASES[name] for name in names], server_url, proxy, stays_away, report)


def cut_everywhere(cases: Sequence[Case], url: str, proxy: Proxy, stays_away: bool, report: Report) -> None:
    patience = "?patience=1" if url.startswith("zookeeper") else ""
    points, happened, undone = 0, 0, 0
    with headgate.connect(url) as direct, headgate.connect(proxy.url + patience) as cut_off:
        for case in cases:
            sweep = Sweep(case, direct, cut_off, proxy, stays_away)
            sweep.run()
            points, happened, undone = points + sweep.points, happened + sweep.happened, undone + sweep.undone
        assert check_store(direct, url) == []
    report(
        store=scheme(url), server="away" if stays_away else "back at once", acts=len(cases), cuts=points,
        **({"had_happened": happened, "undone": undone, "had_not": points - happened - undone} if stays_away else {}),
    )  # fmt: skip
    assert points >= 2 * len(cases)
    assert not stays_away or 0 < happened + undone < points, "the cuts were all on one side of the commit"


class Sweep:
    """One operation, cut at each of its messages in both directions."""

    def __init__(self, case: Case, direct: Gate, cut_off: Gate, proxy: Proxy, stays_away: bool) -> None:
        self._case = case
        self._direct = direct
        self._cut_off = cut_off
        self._proxy = proxy
        self._stays_away = stays_away
        self._tries = 0
        #: Of the cuts: how many operations had happened, and how many of them were undone before the check.
        self.points = self.happened = self.undone = 0

    def run(self) -> None:
        until(lambda: not self._unavailable(lambda: self._cut_off.history(limit=1)), "a connection")
        self._proxy.arm(None)
        after = whole(self._case, self._direct, self._perform)
        last = dict(self._proxy.seen)
        for direction in (TO_SERVER, TO_CLIENT):
            for number in self._numbers(last[direction]):
                if not self._point(Cut(direction, number, self._stays_away), after):
                    break
        self._cut_the_last_answer(last[TO_CLIENT], after)

    def _cut_the_last_answer(self, last: int, after: object) -> None:
        """An answer may arrive in one message or in two, so the last one may have passed each time: try until it is
        cut, and the act has happened, but nobody got the answer.
        """
        tries = 0
        while self._stays_away and not (self.happened or self.undone) and tries < LAST_TRIES:
            self._point(Cut(TO_CLIENT, last + tries % 2, self._stays_away), after)
            tries += 1

    def _numbers(self, last: int) -> list[int]:
        """Which messages are cut.

        The last ones, which commit, always are: how many there are differs a little from one run to the next.
        """
        chosen = {*range(1, EACH + 1), *range(EACH + 1, self._case.most + 1, SKIP)}
        return sorted(chosen | {number for number in range(last - 3, last + 3) if 0 < number <= self._case.most})

    def _perform(self, order: Message) -> None:
        """Do it through the proxy. Giving up waiting ends with a refusal by its nature."""
        try:
            scripts.act(self._cut_off, order)
        except headgate.LockRefused:
            if self._case.name != "give up waiting":
                raise

    def _point(self, cut: Cut, after: object) -> bool:
        """One cut; False when the operation was over before it."""
        self._tries += 1
        resource = f"cut:{self._case.name}:{cut.direction}:{cut.number}:{self._tries}"
        ready = self._case.prepare(self._direct, resource)
        before = self._case.state(self._direct, resource)
        told = self._told(resource)
        # On a connection that is open, the messages are those that were counted. On a busy machine it takes longer to
        # open one than the client under test is patient.
        until(lambda: not self._unavailable(lambda: self._cut_off.history(limit=1)), "a connection")
        self._proxy.arm(cut)
        unavailable = self._unavailable(lambda: self._perform(ready.order))
        self._proxy.disarm()
        self._proxy.heal()
        if unavailable:
            if ready.waiting and self._case.state(self._direct, resource) != before:
                await_waiters(ready)
            self._judge_and_repeat(ready.order, resource, before, after, told)
        await_waiters(ready)
        assert self._case.state(self._direct, resource) == after, f"{cut}, unavailable: {unavailable}"
        self.points += self._proxy.fired.is_set()
        return self._proxy.fired.is_set()

    def _unavailable(self, act: Callable[[], object]) -> bool:
        """True when the store was unavailable. No other error may result."""
        try:
            act()
        except StoreUnavailable:
            return True
        return False

    def _told(self, resource: str) -> int:
        """How often the history reports it, including a grant that was released again."""
        return len(self._direct.history(resource))

    def _judge_and_repeat(self, order: Message, resource: str, before: object, after: object, told: int) -> None:
        found = self._case.state(self._direct, resource)
        happened = found == after
        if self._case.name != "give up waiting":
            assert happened or found == before, "half of it happened"
        self.happened += happened
        self.undone += not happened and self._told(resource) > told
        if happened and not self._case.repeatable:
            return
        deadline = time.monotonic() + 30
        while True:
            try:
                finish(self._case, self._cut_off, order, happened=happened)
            except StoreUnavailable:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return
