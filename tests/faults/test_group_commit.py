"""Threads of a process share commits on SQLite: each call is all or nothing, and no call harms another one."""

import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import pytest

from headgate.calls.deadlines import within
from headgate.core.errors import BadValue, StoreUnavailable
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Duplicate, Transaction
from headgate.stores.sql.dialects.sqlite.dialect import Sqlite
from tests.waiting import PATIENT_OPTIONS, until

ADD = Statement("A row.", "insert into kept (name, size) values (:name, zeroblob(:size))")
LIST = Statement("All rows.", "select name from kept order by name")
MANY = 12
WHO: ContextVar[str] = ContextVar("who")
Work = Callable[[Transaction], object]


class Crowd:
    """Threads that write to one file, and the commits that they needed."""

    def __init__(self, path: Path, journal_mode: str) -> None:
        self.dialect = Sqlite(f"sqlite:///{path}?journal_mode={journal_mode}")
        self.database = Database(self.dialect, PATIENT_OPTIONS)
        self.database.write(lambda tx: tx.run(Statement("", "create table kept (name text unique, size blob)")))
        self.threads = ThreadPoolExecutor(MANY + 1)
        self._committed = self.version()

    def version(self) -> int:
        """SQLite counts the transactions that changed a file in its head (WAL: frames that end one, not counted)."""
        assert self.dialect.path
        with self.dialect.path.open("rb") as file:
            return int.from_bytes(file.read(28)[24:])

    @property
    def commits(self) -> int:
        return self.version() - self._committed

    @property
    def names(self) -> list[str]:
        return [row[0] for row in self.database.single(LIST)]

    @contextmanager
    def gathering(self, calls: int) -> Iterator[Callable[[Work], Future[object]]]:
        """Keep the file locked until this many calls are under way: the first leads, the others queue."""
        sent: list[Future[object]] = []

        def send(work: Work, seconds: float = 20.0, *, slow: bool = False) -> Future[object]:
            def call() -> object:
                with within(seconds, slow=slow):
                    return self.database.write(work)

            sent.append(self.threads.submit(call))
            until(lambda: self._under_way == len(sent) or sent[-1].done(), "the call to queue")
            return sent[-1]

        with self.dialect.turn(20.0):
            yield send
            assert len(sent) == calls

    @property
    def _under_way(self) -> int:
        groups = self.database._groups
        assert groups
        return len(groups._queue) + groups._has_leader


@pytest.fixture(params=["truncate", "wal"])
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crowd]:
    found = Crowd(tmp_path / "crowd.sqlite", request.param)
    yield found
    found.threads.shutdown()
    found.database.close()


def add(name: str, size: int = 0) -> Callable[[Transaction], str]:
    def work(tx: Transaction) -> str:
        tx.run(ADD, name=name, size=size)
        return name

    return work


def add_and_fail(name: str, error: BaseException) -> Work:
    def work(tx: Transaction) -> None:
        tx.run(ADD, name=name, size=0)
        raise error

    return work


def test_calls_that_queue_share_one_commit(crowd: Crowd) -> None:
    with crowd.gathering(MANY) as send:
        sent = [send(add(f"{number:02}")) for number in range(MANY)]
    names = [f"{number:02}" for number in range(MANY)]
    assert [each.result(20) for each in sent] == names == crowd.names
    if crowd.dialect.journal_mode == "truncate":
        assert crowd.commits == 1


def test_each_call_runs_in_its_own_context(crowd: Crowd) -> None:
    def tell_who(name: str) -> tuple[str, str]:
        WHO.set(name)
        with within(20.0):
            return crowd.database.write(lambda _tx: (WHO.get(), threading.current_thread().name))

    with crowd.dialect.turn(20.0):
        sent = [crowd.threads.submit(tell_who, str(number)) for number in range(MANY)]
        until(lambda: crowd._under_way == MANY, "all calls to queue")
    answers = [each.result(20) for each in sent]
    assert [who for who, _ in answers] == [str(number) for number in range(MANY)]
    assert len({thread for _, thread in answers}) == 1, "one thread wrote for all"


def test_calls_that_fail_leave_no_trace_and_harm_no_neighbour(crowd: Crowd) -> None:
    crowd.database.write(add("there"))
    failures = [BadValue("it", "x", "is refused"), ZeroDivisionError("a bug")]
    with crowd.gathering(7) as send:
        good = [send(add("a"))]
        failed = [send(add_and_fail("b", failures[0]))]
        good += [send(add("c"))]
        failed += [send(add_and_fail("d", failures[1]))]
        twice = send(lambda tx: (add("e")(tx), add("there")(tx)))
        wrong = send(lambda tx: (add("f")(tx), tx.all(Statement("", "insert into absent values (1)"))))
        good += [send(add("g"))]
    assert [each.result(20) for each in good] == ["a", "c", "g"]
    assert [each.exception(20) for each in failed] == failures
    assert isinstance(twice.exception(20), Duplicate)
    assert "no such table: absent" in str(wrong.exception(20))
    assert crowd.names == ["a", "c", "g", "there"]


def test_a_call_that_does_not_fit_on_the_disk_fails_alone(crowd: Crowd) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, before[1]))
    try:
        with crowd.gathering(3) as send:
            good = [send(add("a"))]
            large = send(add("large", 8_000_000))
            good += [send(add("b"))]
        assert [each.result(20) for each in good] == ["a", "b"]
        error = large.exception(20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(error, StoreUnavailable)
    assert error.outcome == "none"
    assert crowd.names == ["a", "b"]


def test_a_call_whose_deadline_passes_in_the_queue_never_runs(crowd: Crowd) -> None:
    with crowd.gathering(3) as send:
        first = send(add("a"))
        last = send(add("b"))
        late = send(add("late"), 0.1)  # type: ignore[call-arg]
        error = late.exception(20)
    assert isinstance(error, StoreUnavailable)
    assert error.outcome == "none"
    assert (first.result(20), last.result(20)) == ("a", "b")
    assert crowd.names == ["a", "b"]


def test_a_leader_whose_deadline_passes_lets_the_next_one_lead(crowd: Crowd) -> None:
    with crowd.gathering(2) as send:
        late = send(add("late"), 1.0)  # type: ignore[call-arg]
        other = send(add("a"))
        assert isinstance(late.exception(20), StoreUnavailable)
        assert not other.done()
    assert other.result(20) == "a"
    assert crowd.names == ["a"]


def test_a_bulk_call_shares_its_commit_with_nobody(crowd: Crowd) -> None:
    threads: dict[str, str] = {}

    def note(name: str) -> Work:
        def work(tx: Transaction) -> None:
            threads[add(name)(tx)] = threading.current_thread().name

        return work

    with crowd.gathering(4) as send:
        sent = [send(note("a")), send(note("bulk"), 20.0, slow=True), send(note("b")), send(note("c"))]  # type: ignore[call-arg]
    for each in sent:
        each.result(20)
    assert threads["a"] == threads["b"] == threads["c"] != threads["bulk"]
    assert crowd.names == ["a", "b", "bulk", "c"]


def test_calls_of_an_interrupted_leader_learn_that_their_outcome_is_unknown(crowd: Crowd) -> None:
    with crowd.gathering(2) as send:
        leader = send(add_and_fail("a", KeyboardInterrupt()))
        other = send(add("b"))
    assert isinstance(leader.exception(20), KeyboardInterrupt)
    error = other.exception(20)
    assert isinstance(error, StoreUnavailable)
    assert error.outcome == "unknown"
    assert crowd.database.write(add("c")) == "c"
    assert crowd.names == ["c"]
