"""Storage guards: real locks of the operating system, visible to programs that do not use Headgate."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headgate import Lock, Mode, StorageGuardFailed
from headgate.service.guards.keeper import GuardKeeper
from headgate.service.guards.kinds import FileGuard, GuardBusy, StorageLock, file_path

SHARED, EXCLUSIVE = Mode.SHARED, Mode.EXCLUSIVE

#: Other programs: one locks like the command flock, one like Java and most C programs.
STRANGERS = {
    "flock": "fcntl.flock(file, {mode} | fcntl.LOCK_NB)",
    "lockf": "fcntl.lockf(file, {mode} | fcntl.LOCK_NB)",
}
WORDS = {SHARED: "fcntl.LOCK_SH", EXCLUSIVE: "fcntl.LOCK_EX"}


def stranger(family: str, path: Path, mode: Mode, then: str) -> list[str]:
    program = (
        "import fcntl, sys\n"
        f"file = open({str(path)!r}, 'r+')\n"
        "try:\n"
        f"    {STRANGERS[family].format(mode=WORDS[mode])}\n"
        "except OSError:\n"
        "    sys.exit('busy')\n"
        "print('locked', flush=True)\n"
        f"{then}\n"
    )
    return [sys.executable, "-c", program]


def may_lock(family: str, path: Path, mode: Mode) -> bool:
    """Whether a program that does not use Headgate gets the file."""
    return subprocess.run(stranger(family, path, mode, ""), capture_output=True, check=False).returncode == 0


@contextmanager
def locked_by_stranger(family: str, path: Path, mode: Mode) -> Iterator[None]:
    command = stranger(family, path, mode, "sys.stdin.read()")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline() == "locked\n"
        yield
        program.kill()


def open_descriptors() -> set[str]:
    """Descriptors that are still open when they are listed (listing opens one itself)."""
    return {str(found) for found in Path("/proc/self/fd").iterdir() if found.exists()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data file"
    path.write_text("content")
    return path


families = pytest.mark.parametrize("family", STRANGERS)


@families
@pytest.mark.parametrize("ours", [SHARED, EXCLUSIVE])
def test_another_program_is_kept_out_while_we_hold_the_file(family: str, path: Path, ours: Mode) -> None:
    hold = FileGuard().lock(path.as_uri(), ours)
    assert may_lock(family, path, SHARED) is (ours is SHARED)
    assert may_lock(family, path, EXCLUSIVE) is False
    hold.close()
    assert may_lock(family, path, EXCLUSIVE)


@families
@pytest.mark.parametrize("theirs", [SHARED, EXCLUSIVE])
def test_a_file_held_by_another_program_is_reported_at_once(family: str, path: Path, theirs: Mode) -> None:
    with locked_by_stranger(family, path, theirs):
        with pytest.raises(GuardBusy, match="is locked by a program outside Headgate"):
            FileGuard().lock(path.as_uri(), EXCLUSIVE)
        if theirs is SHARED:
            FileGuard().lock(path.as_uri(), SHARED).close()
        else:
            with pytest.raises(GuardBusy):
                FileGuard().lock(path.as_uri(), SHARED)
    FileGuard().lock(path.as_uri(), EXCLUSIVE).close()


@families
def test_a_lock_becomes_exclusive_and_shared_again(family: str, path: Path) -> None:
    hold = FileGuard().lock(path.as_uri(), SHARED)
    hold.change(EXCLUSIVE)
    assert not may_lock(family, path, SHARED)
    hold.change(SHARED)
    assert may_lock(family, path, SHARED)
    hold.close()


@families
def test_a_change_that_is_not_possible_keeps_the_old_lock(family: str, path: Path) -> None:
    hold = FileGuard().lock(path.as_uri(), SHARED)
    with locked_by_stranger(family, path, SHARED), pytest.raises(GuardBusy):
        hold.change(EXCLUSIVE)
    assert not may_lock(family, path, EXCLUSIVE)
    assert may_lock(family, path, SHARED)
    hold.close()


def test_a_busy_file_leaves_no_descriptor_open(path: Path) -> None:
    with locked_by_stranger("flock", path, EXCLUSIVE):
        before = open_descriptors()
        for mode in (SHARED, EXCLUSIVE):
            with pytest.raises(GuardBusy):
                FileGuard().lock(path.as_uri(), mode)
        assert open_descriptors() == before


def test_a_lock_does_not_outlive_the_process_that_held_it(path: Path) -> None:
    program = (
        "import os, sys\n"
        "from headgate.core.locks.model import Mode\n"
        "from headgate.service.guards.kinds import FileGuard\n"
        "hold = FileGuard().lock(sys.argv[1], Mode.EXCLUSIVE)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, path.as_uri()], check=False)
    assert may_lock("flock", path, EXCLUSIVE)


def test_a_child_does_not_inherit_the_lock(path: Path) -> None:
    hold = FileGuard().lock(path.as_uri(), EXCLUSIVE)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        hold.close()
        assert may_lock("flock", path, EXCLUSIVE)
        child.kill()


def test_a_folder_can_be_locked(tmp_path: Path) -> None:
    hold = FileGuard().lock(tmp_path.as_uri() + "/", EXCLUSIVE)
    with pytest.raises(GuardBusy):
        FileGuard().lock(tmp_path.as_uri(), SHARED)
    hold.close()


def test_a_writer_may_lock_a_missing_file_and_a_reader_may_not(tmp_path: Path) -> None:
    FileGuard().lock((tmp_path / "new").as_uri(), EXCLUSIVE).close()
    assert (tmp_path / "new").exists()
    with pytest.raises(FileNotFoundError):
        FileGuard().lock((tmp_path / "other").as_uri(), SHARED)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a%20b%25", "/a b%"),
        ("file:///caf%C3%A9", "/café"),
    ],
)
def test_the_path_of_a_file_resource(resource: str, path: str) -> None:
    assert file_path(resource) == path


def test_a_file_of_another_machine_cannot_be_guarded_here() -> None:
    with pytest.raises(StorageGuardFailed, match=r"it is on another machine \(node7\)"):
        file_path("file://node7/a/b")


# ------------------------------------------------------------------ the keeper


class Recorder:
    """A guard that records its calls, and fails on request."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails: dict[str, Exception] = {}

    def lock(self, resource: str, mode: Mode) -> StorageLock:
        self.note(f"lock {resource} {mode}")
        return RecordedHold(self, resource)

    def note(self, what: str) -> None:
        self.done.append(what)
        if what.split(maxsplit=1)[0] in self.fails:
            raise self.fails[what.split(maxsplit=1)[0]]


class RecordedHold:
    def __init__(self, guard: Recorder, resource: str) -> None:
        self._guard = guard
        self._resource = resource

    def change(self, mode: Mode) -> None:
        self._guard.note(f"change {self._resource} {mode}")

    def close(self) -> None:
        self._guard.note(f"close {self._resource}")


def lock_of(lock_id: str, resource: str, mode: Mode, token: int = 1, request_id: str = "first") -> Lock:
    return Lock(lock_id, resource, "a", mode, token, datetime(2026, 11, 15, tzinfo=UTC), request_id=request_id)


@pytest.fixture
def guard() -> Recorder:
    return Recorder()


@pytest.fixture
def keeper(guard: Recorder) -> GuardKeeper:
    return GuardKeeper({"x": guard})


def test_only_the_schemes_of_its_guards_are_covered(keeper: GuardKeeper) -> None:
    assert keeper.covers("x:1")
    assert not keeper.covers("y:1")
    assert not keeper.covers("x")


def test_many_readers_share_one_real_lock(keeper: GuardKeeper, guard: Recorder) -> None:
    for lock_id in ("a", "b", "c"):
        keeper.take(lock_of(lock_id, "x:1", SHARED))
    for lock_id in ("b", "a"):
        keeper.leave(lock_id)
    assert guard.done == ["lock x:1 shared"]
    keeper.leave("c")
    assert guard.done == ["lock x:1 shared", "close x:1"]
    keeper.leave("c")
    keeper.leave("never taken")
    assert len(guard.done) == 2


def test_each_resource_has_its_own_real_lock(keeper: GuardKeeper, guard: Recorder) -> None:
    keeper.take(lock_of("a", "x:1", SHARED))
    keeper.take(lock_of("b", "x:2", EXCLUSIVE))
    keeper.leave("a")
    assert guard.done == ["lock x:1 shared", "lock x:2 exclusive", "close x:1"]


def test_changing_our_lock_changes_the_real_lock(keeper: GuardKeeper, guard: Recorder) -> None:
    keeper.take(lock_of("a", "x:1", SHARED))
    assert keeper.change("a", EXCLUSIVE) is SHARED
    assert keeper.change("a", EXCLUSIVE) is EXCLUSIVE
    assert keeper.change("unknown", SHARED) is None
    assert guard.done == ["lock x:1 shared", "change x:1 exclusive"]


def test_several_holds_of_one_lock_share_one_real_lock(keeper: GuardKeeper, guard: Recorder) -> None:
    """Each request counts once, however often it is repeated."""
    for request_id in ("first", "second", "second"):
        keeper.take(lock_of("a", "x:1", EXCLUSIVE, request_id=request_id))
    keeper.leave("a")
    assert guard.done == ["lock x:1 exclusive"]
    keeper.leave("a")
    assert guard.done == ["lock x:1 exclusive", "close x:1"]


def test_a_request_that_times_out_keeps_the_holds_of_others(keeper: GuardKeeper, guard: Recorder) -> None:
    keeper.take(lock_of("a", "x:1", EXCLUSIVE))
    keeper.leave("a", "another that never got it")
    assert guard.done == ["lock x:1 exclusive"]


def test_a_lost_lock_ends_all_its_holds_but_not_those_of_a_newer_token(keeper: GuardKeeper, guard: Recorder) -> None:
    keeper.take(lock_of("a", "x:1", SHARED))
    keeper.take(lock_of("a", "x:1", SHARED, request_id="second"))
    keeper.changed(lock_of("a", "x:1", EXCLUSIVE, token=2))
    keeper.lose("a", 1)
    assert "close x:1" not in guard.done
    keeper.lose("a", 2)
    assert guard.done[-1] == "close x:1"
    keeper.lose("a", 2)
    keeper.changed(lock_of("a", "x:1", EXCLUSIVE, token=3))


Act = Callable[[GuardKeeper], object]


@pytest.mark.parametrize(
    ("step", "act"),
    [
        ("lock", lambda keeper: keeper.take(lock_of("b", "x:2", SHARED))),
        ("change", lambda keeper: keeper.change("a", EXCLUSIVE)),
        ("close", lambda keeper: keeper.leave("a")),
    ],
)
def test_an_exception_in_a_guard_is_reported_as_its_failure(
    keeper: GuardKeeper, guard: Recorder, step: str, act: Act
) -> None:
    keeper.take(lock_of("a", "x:1", SHARED))
    guard.fails[step] = OSError("the disk is on fire")
    with pytest.raises(StorageGuardFailed, match="the disk is on fire") as error:
        act(keeper)
    assert error.value.resource in ("x:1", "x:2")


def test_a_busy_guard_is_refused_and_keeps_nothing(keeper: GuardKeeper, guard: Recorder) -> None:
    guard.fails["lock"] = GuardBusy("somebody has it")
    with pytest.raises(GuardBusy):
        keeper.take(lock_of("a", "x:1", EXCLUSIVE))
    guard.fails.clear()
    keeper.take(lock_of("b", "x:1", EXCLUSIVE))
    keeper.leave("b")
    assert guard.done[-1] == "close x:1"


def test_a_file_lock_that_could_not_be_released_is_forgotten_nevertheless(keeper: GuardKeeper, guard: Recorder) -> None:
    keeper.take(lock_of("a", "x:1", SHARED))
    guard.fails["close"] = OSError("no")
    with pytest.raises(StorageGuardFailed, match="it could not be released: no"):
        keeper.leave("a")
    guard.fails.clear()
    keeper.take(lock_of("b", "x:1", EXCLUSIVE))
    assert guard.done[-1] == "lock x:1 exclusive"
