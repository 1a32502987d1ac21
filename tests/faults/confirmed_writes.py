"""Plain writes that a ZooKeeper ensemble has confirmed, and whether they still exist.

ZooKeeper before 3.8.4 can lose confirmed writes when its members are separated (ZOOKEEPER-4785); Debian 12 has 3.8.0. A
run in which that happened proves nothing about its locks: these writes do not involve Headgate.
"""

from collections.abc import Sequence
from threading import Event, Thread
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.faults.ensembles import CutEnsemble

#: Writes follow each other closely, because only the writes of a few tenths of a second are lost.
PAUSE_SECONDS = 0.01
ANSWER_SECONDS = 2.0
FOLDER = "/confirmed-writes"


class ConfirmedWrites:
    """Clients that write to the root of an ensemble until this ends: one connected to each member, and one to any."""

    def __init__(self, ensemble: CutEnsemble) -> None:
        hosts = [f"127.0.0.1:{member.port}" for member in ensemble.members]
        self._everybody = ",".join(hosts)
        self._stop = Event()
        self._confirmed: list[str] = []
        self._threads = [
            Thread(target=self._write, args=(number, asked), name=f"confirmed-writes-{number}")
            for number, asked in enumerate([*hosts, self._everybody])
        ]

    def __enter__(self) -> Self:
        client = self._connect(self._everybody)
        client.ensure_path(FOLDER)
        client.stop()
        client.close()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def lost(self) -> Sequence[str]:
        """Confirmed writes that are gone."""
        confirmed = tuple(self._confirmed)
        client = self._connect(self._everybody)
        try:
            client.sync(FOLDER)
            return sorted(set(confirmed) - set(client.get_children(FOLDER)))
        finally:
            client.stop()
            client.close()

    def _write(self, number: int, hosts: str) -> None:
        client = self._connect(hosts)
        written = 0
        while not self._stop.wait(PAUSE_SECONDS):
            written += 1
            name = f"{number}-{written}"
            try:
                client.create_async(f"{FOLDER}/{name}").get(timeout=ANSWER_SECONDS)
            except (KazooException, KazooTimeoutError):
                continue
            self._confirmed.append(name)
        client.stop()
        client.close()

    @staticmethod
    def _connect(hosts: str) -> KazooClient:
        client = KazooClient(hosts=hosts, timeout=4.0)
        client.start(timeout=30)
        return client
