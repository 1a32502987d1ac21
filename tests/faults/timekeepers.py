"""Timekeepers and a publisher as processes, whose wall clock is not that of the machine.

libfaketime breaks sleeping until a moment of the monotonic clock, so they sleep by select.
"""

import select
import time
from typing import Any

import headgate
from headgate.daemons.timekeeper import Timekeeper
from headgate.telemetry import event
from tests.faults.processes import Channel

#: Seconds of a dead timekeeper's lease, and between two rounds.
LEASE, EVERY = 0.4, 0.01
DATASET = "raw"


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


def _sleep_by_select() -> None:
    vars(time)["sleep"] = _sleep


def keep_time(channel: Channel, url: str, worker: str) -> None:
    """Judge until asked to stop, or killed."""
    _sleep_by_select()
    with headgate.connect(url) as gate:
        keeper = Timekeeper(gate.expectations, worker, LEASE)
        channel.send("ready")
        while not channel.read_all()[1]:
            try:
                keeper.round()
            except headgate.StoreUnavailable as error:
                event("timekeeper.waits", why=str(error))
            _sleep(EVERY)


def publish(channel: Channel, url: str, expect: dict[str, Any]) -> None:
    """Define the dataset, and publish the data ids that arrive on the channel."""
    _sleep_by_select()
    with headgate.connect(url) as gate:
        gate.ledger.define_dataset(DATASET, expect=expect)
        channel.send("ready")
        while (order := channel.receive()) is not None:
            gate.ledger.publish(DATASET, order["dataids"])
            channel.send("done", now=time.time())
