"""A long run without faults: no holder may lose a lock or a claim.

There are holders that renew short leases many times, workers of the chain with many heartbeats, and clients of a
service. A loss counts as false unless the machine starved the holder, as the holder's own clock shows.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import headgate
from tests.faults.arena import Act
from tests.faults.chain_worker import define
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Zygote
from tests.faults.recorder import Rules
from tests.faults.recording import Recording
from tests.faults.services import Service
from tests.fresh import scheme
from tests.shared_servers import Servers

SECONDS = 20 * 60 if FULL else 5
#: Short, so that thousands of renewals happen; long enough for a busy machine.
LEASE = 3.0
#: Seconds for a generation of resources and chunks.
GENERATION_SECONDS = 15.0 if FULL else 2.5
CHUNKS = 200
#: Losses by the holder's own clock, when the machine starved it: at most this fraction of all grants.
STARVED = 0.02


class Soak(Recording):
    """Generation after generation, undisturbed."""

    def _plan_acts(self) -> Sequence[Act]:
        return [self._go_on] * round(SECONDS / GENERATION_SECONDS)

    def _is_due(self) -> bool:
        return all(worker.ready for worker in self._workers.values())

    def _struck(self) -> None:
        pass

    def _is_over(self) -> bool:
        return True

    def _go_on(self, _desperate: bool) -> bool:
        self.generation += 1
        self.listen_for(GENERATION_SECONDS)
        return True


@pytest.mark.torture
@pytest.mark.timeout(SECONDS + 600 if FULL else 120)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "zookeeper", "service"])
def test_nothing_is_lost_while_nothing_is_broken(
    kind: str, servers: Servers, processes: Zygote, report: Report, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'headgate.sqlite'}" if kind == "service" else servers.fresh(kind)
    with headgate.connect(url) as gate:
        if kind != "zookeeper":
            define(gate)
            gate.ledger.publish("raw", [str(number) for number in range(CHUNKS * (20 if FULL else 1))])
    service = Service(tmp_path, url) if kind == "service" else None
    urls = [(service.url, service.token) if service else (url, None)]
    rules = Rules(LEASE, ledger=kind != "zookeeper", careless=False, long=0.15, leases=4.0 if FULL else 1.4, pause=0.15)
    run = Soak(processes, urls, rules, SECONDS + 500, time.time_ns() % 2**32)
    try:
        run.run()
    finally:
        if service:
            service.discard()
    found = run.witness.judgement()
    starved, losses = run.witness.counts.starved, run.witness.counts.losses
    report(
        store=kind if service else scheme(url), seconds=SECONDS, violations=len(found), losses=losses, starved=starved,
        lease=LEASE, **run.witness.totals(),
    )  # fmt: skip
    run.assert_sound(found, tmp_path)
    assert losses == starved, "a lock or claim was lost, and nothing was broken"
    assert starved <= STARVED * run.witness.counts.grants
