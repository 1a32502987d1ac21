"""Files arrive half-written, renamed or again, while watchers are killed: each is published once, and never early."""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from headgate.core.ledger.model import PUBLISH_EVENT, RESUBMIT_EVENT
from tests.conftest import SQL_STORES, fresh_store
from tests.faults.conftest import Report
from tests.faults.postman import DATASET, SETTLE, watch_folder
from tests.faults.processes import Child, Zygote
from tests.figures import FULL
from tests.shared_servers import Servers
from tests.waiting import until

pytestmark = pytest.mark.torture
FILES, KILLS = (10_000, 200) if FULL else (120, 8)
#: Files that grow at the same time, and seconds within which a running watcher scans them.
WAVE, LOOKED_WITHIN = 5, SETTLE / 3
#: A file that was unchanged for longer through the test's own fault may have counted.
TOO_SLOW = SETTLE / 2
PATIENCE = 600.0 if FULL else 60.0
WORK = f"{watch_folder.__module__}:{watch_folder.__name__}"


class Office:
    """Two watchers of one folder, one of which is killed again and again."""

    def __init__(self, processes: Zygote, url: str, folder: Path) -> None:
        self._processes, self._arguments = processes, {"url": url, "folder": str(folder)}
        self.watchers = [self._start() for _ in range(2)]
        self.kills = 0

    def _start(self) -> Child:
        return self._processes.spawn(WORK, **self._arguments)

    def kill(self) -> None:
        """Kill and replace one of them; which one works is unknown."""
        victim = self.watchers.pop(random.randrange(2))
        victim.signal(signal.SIGKILL)
        victim.wait()
        self.watchers.append(self._start())
        self.kills += 1


@pytest.fixture(params=SQL_STORES)
def url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    yield from fresh_store(request.param, servers, tmp_path)


def grow(gate: Gate, folder: Path, names: list[str], office: Office) -> set[str]:
    """Write files in two halves, with a scan in between. Returns those that were unchanged for too long."""
    slow = set[str]()
    waves = [names[start : start + WAVE] for start in range(0, len(names), WAVE)]
    for number, wave in enumerate(waves):
        began = time.monotonic()
        for name in wave:
            (folder / name).write_bytes(b"half")
        while time.monotonic() < began + LOOKED_WITHIN and not _sees(gate, len(wave)):
            time.sleep(0.01)
        for name in wave:
            with (folder / name).open("ab") as file:
                file.write(b" and the rest of " + name.encode())
        if time.monotonic() - began > TOO_SLOW:
            slow.update(wave)
        if number % max(len(waves) * 2 // KILLS, 1) == 0:
            office.kill()
    return slow


def _sees(gate: Gate, count: int) -> bool:
    """Whether the watcher has reported that these files do not count yet."""
    return any(each.waiting >= count for each in gate.watches.list())


def rename(folder: Path, names: list[str], text: bytes, office: Office) -> None:
    """Write each file under a temporary name, in two halves, and rename it into place."""
    kill_every = max(len(names) * 4 // KILLS, 1)
    for number, name in enumerate(names):
        written = folder / f"{name}.part"
        for half in (b"half", b" and " + text):
            with written.open("ab") as file:
                file.write(half)
        written.rename(folder / name)
        if number % kill_every == kill_every - 1:
            office.kill()


def send_again(folder: Path, names: list[str]) -> None:
    """The same content once more, with the same time."""
    for name in names:
        copy = folder / f".{name}"
        shutil.copy2(folder / name, copy)
        copy.rename(folder / name)


@pytest.mark.timeout(1500 if FULL else 120)
def test_each_file_is_published_once_and_never_early(
    url: str, processes: Zygote, tmp_path: Path, report: Report
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    names = [f"f{number:05}.dat" for number in range(FILES)]
    growing, renamed = names[::2], names[1::2]
    with headgate.connect(url) as gate:
        gate.ledger.define_dataset(DATASET)
        office = Office(processes, url, folder)
        until(gate.watches.list, "a watcher")
        slow = grow(gate, folder, growing, office)
        rename(folder, renamed, b"the first text", office)
        until(lambda: sum(each.files for each in gate.watches.list()) == FILES, "every file to be published", PATIENCE)
        changed, same = names[::3], names[1::3]
        rename(folder, changed, b"another, longer text", office)
        send_again(folder, same)
        expected = set(changed)
        until(lambda: expected <= {each.mark.name for each in gate.watches.counted(DATASET) if each.changes},
              "every change to be noticed", PATIENCE)  # fmt: skip
        _look_again(gate, folder)
        for watcher in office.watchers:
            watcher.expect("ready")
            watcher.channel.close()
        wrong = _wrong(gate, expected, slow)
    assert wrong == []
    assert office.kills >= KILLS // 2
    assert len(slow) < len(growing) / 2, "too slow a machine: most files were allowed to count early"
    report(store=url.partition(":")[0], files=FILES, faults=office.kills, calls=FILES + len(changed), violations=0)


def _look_again(gate: Gate, folder: Path) -> None:
    """A file that existed before has been scanned twice more when a new file is published."""
    (folder / "last.dat").write_bytes(b"the end")
    os.sync()
    until(lambda: any(each.mark.name == "last.dat" for each in gate.watches.counted(DATASET)), "the last", PATIENCE)


def _wrong(gate: Gate, changed: set[str], slow: set[str]) -> list[str]:
    """Files whose number of deliveries or events differs from the expected one."""
    found = []
    for each in gate.watches.counted(DATASET):
        name, changes = each.mark.name, int(each.mark.name in changed)
        events = [entry.event for entry in gate.history(job="external", dataid=each.dataid)]
        told = (events.count(PUBLISH_EVENT), events.count(RESUBMIT_EVENT))
        if name not in slow and (each.changes, told) != (changes, (1 + changes, changes)):
            found.append(f"{name}: {each.changes} changes instead of {changes}, history {events}")
        if told != (1 + each.changes, each.changes):
            found.append(f"{name}: {each.changes} changes are recorded, and in the history {events}")
    return found
