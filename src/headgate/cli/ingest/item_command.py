"""Running a command as a handler of the queue: its environment, its output, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.cli.processes.drain import last_line
from headgate.cli.processes.guardian import Guardian
from headgate.cli.processes.run_folder import private_file
from headgate.cli.processes.running import Following, StopLimits
from headgate.cli.processes.spawned import Spawned
from headgate.cli.processes.stopping import STOP_SIGNALS
from headgate.cli.terminal.failures import TRY_LATER
from headgate.core.queue.model import PENDING, Batch, Folder, Item, Report
from headgate.core.values.documents import read_document
from headgate.core.values.wire import plain
from headgate.core.values.words import check_word
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.checks import DEFAULT_LEASE
from headgate.service.queue.outcomes import Done, Failed, NotNow, Outcome
from headgate.service.queue.use_cases import Queue

#: The values that a command may change, by the JSON object that it prints.
CHANGES = ("message", "priority", "space_needed", "identifiers", "configuration")


class ItemCommand:
    """Runs a command on each item."""

    def __init__(
        self, queue: Queue, words: Sequence[str], guardian: Guardian, folder: Path, variables: Mapping[str, str]
    ) -> None:
        """`folder`: for the files of items; only its user can read it."""
        self._queue = queue
        self._words = words
        self._guardian = guardian
        self._folder = folder
        #: Its environment, without the variables of the item.
        self._variables = variables
        #: The running commands, by item.
        self._running: dict[str, Spawned] = {}

    def __call__(self, item: Item, hold: ItemHold) -> Outcome:
        """Exit code 0: done, 75: not now, any other: failed, with the last line of its stderr."""
        spawned = Spawned(self._words, self._guardian)
        following = Following(spawned, StopLimits.of(hold.lease or DEFAULT_LEASE, None))
        spawned.on_end = following.look
        self._running[item.id] = spawned
        try:
            with private_file(self._folder, "item-", json.dumps(plain(item), ensure_ascii=False)) as path:
                told = {**self._variables, **environment(item, path)}
                code = following.until_end([hold], told, signals=False)
        finally:
            spawned.end()
            self._running.pop(item.id, None)
            following.close()
        if following.lost is not None:
            raise following.lost
        why = last_line(spawned.said("err"))
        if code == 0:
            return self._done(item, spawned.said("out"))
        if code == TRY_LATER:
            return NotNow(why)
        ended = f"exit code {code}" if code < 128 else f"ended by signal {code - 128}"
        return Failed(why or ended, by_signal=code - 128 in STOP_SIGNALS)

    def abandon(self, item: Item) -> None:
        """Kill the command of an item, with everything that it started."""
        spawned = self._running.get(item.id)
        if spawned is not None:
            spawned.kill()

    def _done(self, item: Item, said: str) -> Outcome:
        changes = read_changes(said)
        rows = changes.pop("jobs", None)
        if isinstance(item, Batch):
            if item.state == PENDING:
                self._queue.create_jobs(item, [] if rows is None else rows)
            else:
                changes["report"] = self._report(item)
        for name in changes:
            check_word("change", name, (*CHANGES, "report"))
        return Done(**changes)

    def _report(self, batch: Batch) -> Report:
        failed, good = (self._queue.job_ids(batch.id, each) for each in (Folder.FAILED, Folder.COMPLETED))
        return Report(tuple(failed), tuple(good))


def read_changes(said: str) -> dict[str, Any]:
    """Return the JSON object in the output or in its last line; empty if there is none."""
    for text in (said, last_line(said)):
        try:
            found = read_document(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def environment(item: Item, path: Path) -> dict[str, str]:
    """Variables that describe the item to its command."""
    return {
        "HEADGATE_ITEM": item.id, "HEADGATE_STATE": item.state, "HEADGATE_TOKEN": str(item.token),
        "HEADGATE_ITEM_FILE": str(path),
    }  # fmt: skip
