"""A watcher as a process, on a folder in which files arrive."""

import time
from pathlib import Path

import headgate
from headgate.core.ledger.watches.parsing import parse_watch
from headgate.daemons.watching.places import FolderPlace
from headgate.daemons.watching.watcher import FileWatcher
from headgate.telemetry import event
from tests.faults.processes import Channel
from tests.figures import FULL

#: Seconds that a file has to be unchanged, of a dead watcher's lease (a scan of 10,000 files has to fit in), and
#: between two scans.
SETTLE, LEASE, EVERY = 0.6, 3.0 if FULL else 0.8, 0.1
DATASET = "parcels"
KEYS = {"pattern": "{x}.dat", "settle": SETTLE, "every": EVERY, "on_change": "note"}


def watch_folder(channel: Channel, url: str, folder: str) -> None:
    """Watch until asked to stop, or killed."""
    watch = parse_watch(DATASET, {"folder": folder, **KEYS})
    with headgate.connect(url) as gate:
        place = FolderPlace(Path(folder), watch.depth)
        watcher = FileWatcher(gate.watches, watch, place, lease=LEASE)
        channel.send("ready")
        while not channel.read_all()[0]:
            try:
                watcher.look()
            except headgate.StoreUnavailable as error:
                event("watch.waits", why=str(error))
            time.sleep(EVERY)  # At its own pace, as a daemon.
        watcher.stop()
        channel.send("done")
