"""A holder that is stopped for longer than its lease notices its loss by itself, and its operations are refused."""

import signal
import time

import headgate
from headgate import LockRefused
from tests.contract.steps import everything
from tests.faults.conftest import Report
from tests.faults.processes import Zygote
from tests.fresh import scheme

R = "paused:1"
LEASE = 1.0
#: From waking up until the holder is notified. The promise is one second; a loaded machine may take that long
#: merely to schedule the process, so this much is added.
SLACK_SECONDS = 1.0


def test_a_paused_holder_learns_of_its_loss(store_url: str, processes: Zygote, report: Report) -> None:
    with headgate.connect(store_url) as gate:
        holder = processes.spawn("tests.faults.scripts:hold_and_learn", url=store_url, resource=R, lease=LEASE)
        first = holder.expect("held")
        refused = False
        try:
            gate.locks.acquire("second", R, "exclusive")
        except LockRefused:
            refused = True
        assert refused
        holder.stop()
        second = gate.locks.acquire("second", R, "exclusive", wait=30, lease=600)
        assert second.token > first["token"]
        assert not holder.channel.read_all()[0], "nobody speaks while it is stopped"
        woken = time.monotonic()
        holder.signal(signal.SIGCONT)
        lost = holder.expect("lost")
        assert lost["seen"]
        assert lost["at"] - woken < 1.0 + SLACK_SECONDS
        before = everything(gate)
        holder.channel.send("go")
        errors = holder.expect("refusals")["errors"]
        assert errors == dict.fromkeys(errors, "LockLost")
        assert holder.expect("left")["error"] == "LockLost"
        assert everything(gate) == before
        assert gate.locks.check(second).token == second.token
    report(store=scheme(store_url), told_after_waking=round(lost["at"] - woken, 3))
