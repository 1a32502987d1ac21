"""Cut off between any two steps: every act happens wholly or not at all, and a repeat makes it whole.

On a file the process is killed before its n-th system call of each kind. On a server the connection is cut at its n-th
message, before the request arrives, or after it was carried out and before the answer arrives.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate import Gate, HeadgateError, StoreUnavailable
from tests.conftest import fresh_store
from tests.faults import scripts
from tests.faults.conftest import FULL, Report
from tests.faults.crash_cases import CASES, Case, await_waiters, state_of, whole
from tests.faults.processes import Child, Message, Zygote
from tests.faults.proxy import TO_CLIENT, TO_SERVER, Cut, Proxy
from tests.faults.soundness import check_store
from tests.shared_servers import Servers, cannot_be_had

SERVERS = ["postgresql", "mariadb", "zookeeper"]
#: What SQLite does to its files; each kind is counted for itself.
SYSTEM_CALLS = ("openat", "pwrite64", "fdatasync", "ftruncate", "fcntl")
#: Of the writes, every so manyth is enough for the short form; all other calls are cut each.
STRIDE = {"pwrite64": 1 if FULL else 5}
ON_FILES = [name for name in CASES if name != "give up waiting"]
SHORT_ON_FILES = ["acquire", "acquire all", "release", "release to a waiter"]
#: In the short form ZooKeeper, where each cut costs half a second, is asked for less.
SHORT_ON_ZOOKEEPER = ["acquire", "release to a waiter"]
#: In the short form, of an act with many messages, every so manyth is cut after the first ones.
EACH, SKIP = (60, 1) if FULL else (4, 4)


# ------------------------------------------------------------------ files


@pytest.fixture
def file_gate(tmp_path: Path) -> Iterator[Gate]:
    if shutil.which("strace") is None:
        cannot_be_had("strace", "the program strace is missing: install the Debian package strace")
    with headgate.connect(f"sqlite:///{tmp_path / 'headgate.sqlite'}") as gate:
        yield gate


@pytest.mark.torture
@pytest.mark.parametrize("name", ON_FILES if FULL else SHORT_ON_FILES)
def test_killed_at_a_system_call(name: str, file_gate: Gate, tmp_path: Path, processes: Zygote, report: Report) -> None:
    """SQLite: kill -9 before each step that touches the file."""
    url = f"sqlite:///{tmp_path / 'headgate.sqlite'}"
    case = CASES[name]
    after = whole(case, file_gate, lambda order: scripts.act(file_gate, order))
    points, done = 0, 0
    for call in SYSTEM_CALLS:
        number = 1
        while (happened := kill_at(case, file_gate, url, processes, (call, number), after)) is not None:
            points, done, number = points + 1, done + happened, number + STRIDE.get(call, 1)
    assert check_store(file_gate, url) == []
    report(store="sqlite", act=name, kills=points, had_happened=done, had_not=points - done)
    assert points > 10, "the kills hit nothing"


def kill_at(case: Case, gate: Gate, url: str, processes: Zygote, point: tuple[str, int], after: object) -> bool | None:
    """One kill. Whether the act had happened by then; None when it was over before."""
    resource = f"kill:{case.name}:{point[0]}:{point[1]}"
    ready = case.prepare(gate, resource)
    before = state_of(gate, resource)
    child = processes.spawn("tests.faults.scripts:obey", url=url)
    child.expect("ready")
    with tracer(child, *point) as trace:
        child.channel.send(**ready.order)
        answer = child.channel.receive()
        if answer is not None:
            child.kill()
        child.wait()
        trace.wait(30)
    if ready.waiting and state_of(gate, resource) != before:
        await_waiters(ready)
    found = state_of(gate, resource)
    assert found in (before, after), f"half of it happened at {point}"
    if answer is not None:
        assert found == after
        return None
    finish(case, gate, ready.order, happened=found == after)
    await_waiters(ready)
    assert state_of(gate, resource) == after
    return found == after


def tracer(child: Child, call: str, number: int) -> "subprocess.Popen[str]":
    """Kills the child before its n-th call of that kind from now on."""
    inject = f"inject={call}:signal=SIGKILL:when={number}"
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
    """Ask once more, as whoever does not know what became of it would."""
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


@pytest.mark.torture
@pytest.mark.timeout(600 if FULL else 120)
@pytest.mark.parametrize("stays_away", [False, True], ids=["back at once", "away for a while"])
def test_cut_at_a_message(server_url: str, proxy: Proxy, stays_away: bool, report: Report) -> None:
    """The connection is cut at each message, and the server is there again at once, or not for a while."""
    zookeeper = server_url.startswith("zookeeper")
    patience = "?patience=0.4" if zookeeper else ""
    points, happened = 0, 0
    with headgate.connect(server_url) as direct, headgate.connect(proxy.url + patience) as cut_off:
        names = SHORT_ON_ZOOKEEPER if zookeeper and not FULL else list(CASES)
        for case in map(CASES.__getitem__, names):
            sweep = Sweep(case, direct, cut_off, proxy, stays_away)
            sweep.run()
            points, happened = points + sweep.points, happened + sweep.happened
        assert check_store(direct, server_url) == []
    report(
        store=server_url.partition(":")[0], server="away" if stays_away else "back at once", acts=len(names),
        cuts=points, **({"had_happened": happened, "had_not": points - happened} if stays_away else {}),
    )  # fmt: skip
    assert points >= 2 * len(names)
    assert not stays_away or 0 < happened < points


class Sweep:
    """One act, cut at each of its messages in both directions."""

    def __init__(self, case: Case, direct: Gate, cut_off: Gate, proxy: Proxy, stays_away: bool) -> None:
        self._case = case
        self._direct = direct
        self._cut_off = cut_off
        self._proxy = proxy
        self._stays_away = stays_away
        self.points = self.happened = 0

    def run(self) -> None:
        after = whole(self._case, self._direct, self._perform)
        for direction in (TO_SERVER, TO_CLIENT):
            for number in (*range(1, EACH + 1), *range(EACH + 1, self._case.most + 1, SKIP)):
                if not self._point(Cut(direction, number, self._stays_away), after):
                    break

    def _perform(self, order: Message) -> None:
        """Do it through the proxy. Giving up waiting ends with a refusal by its nature."""
        try:
            scripts.act(self._cut_off, order)
        except headgate.LockRefused:
            if self._case.name != "give up waiting":
                raise

    def _point(self, cut: Cut, after: object) -> bool:
        """One cut; False when the act was over before it."""
        resource = f"cut:{self._case.name}:{cut.direction}:{cut.number}"
        ready = self._case.prepare(self._direct, resource)
        before = state_of(self._direct, resource)
        self._proxy.arm(cut)
        unavailable = self._try(ready.order)
        self._proxy.disarm()
        self._proxy.open()
        if unavailable:
            if ready.waiting and state_of(self._direct, resource) != before:
                await_waiters(ready)
            self._judge_and_repeat(ready.order, resource, before, after)
        await_waiters(ready)
        assert state_of(self._direct, resource) == after, f"{cut}, unavailable: {unavailable}"
        self.points += self._proxy.fired.is_set()
        return self._proxy.fired.is_set()

    def _try(self, order: Message) -> bool:
        """True when the store was unavailable. No other error may come of it."""
        try:
            self._perform(order)
        except StoreUnavailable:
            return True
        return False

    def _judge_and_repeat(self, order: Message, resource: str, before: object, after: object) -> None:
        found = state_of(self._direct, resource)
        happened = found == after
        if self._case.name != "give up waiting":
            assert happened or found == before, "half of it happened"
        self.happened += happened
        deadline = time.monotonic() + 30
        while True:
            try:
                finish(self._case, self._cut_off, order, happened=happened)
            except StoreUnavailable:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return
