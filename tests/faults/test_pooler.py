"""PgBouncer in transaction mode: locks and the ledger behave behind it as they do without it."""

import time
from collections.abc import Iterator

import pytest

import headgate
from tests.faults.chain import Chain
from tests.faults.chain import Plan as ChainPlan
from tests.faults.chain_worker import Rules as ChainRules
from tests.faults.chain_worker import define
from tests.faults.conftest import FULL, Report
from tests.faults.fight import Fight, Plan, await_silence
from tests.faults.fighter import Rules
from tests.faults.processes import Zygote
from tests.faults.soundness import check_store
from tests.poolers import PgBouncer
from tests.servers import Unavailable
from tests.shared_servers import Servers, cannot_be_had

FIGHT = (
    Plan(grants=2000, kills=60, stops=20, pace=0.45, seconds=600)
    if FULL
    else Plan(grants=100, kills=3, stops=1, pace=0.5, seconds=100)
)
CHAIN = (
    ChainPlan(chunks=500, kills=30, stops=10, seconds=900)
    if FULL
    else ChainPlan(chunks=15, kills=2, stops=1, seconds=100)
)
LEASE = 0.8


@pytest.fixture
def pooled(servers: Servers) -> Iterator[tuple[str, str]]:
    """An empty store, by way of the pooler and directly."""
    try:
        PgBouncer.require_programs()
    except Unavailable as reason:
        cannot_be_had("pgbouncer", str(reason))
    direct = servers.fresh("postgresql")
    with PgBouncer(direct) as pooler:
        yield pooler.through(direct), direct
    servers.leave("postgresql", direct)


@pytest.mark.torture
@pytest.mark.timeout(700 if FULL else 120)
def test_eight_processes_fight_through_a_pooler(pooled: tuple[str, str], processes: Zygote, report: Report) -> None:
    url, direct = pooled
    seed = time.time_ns() % 2**32
    headgate.connect(url).close()
    arena = Fight(processes, url, Rules(LEASE), FIGHT, seed)
    arena.run()
    witness, toll = arena.witness, arena.toll
    report(
        store="postgresql", **witness.tally(), **witness.figures(), kills=toll.kills, stops=toll.stops,
        kills_of_holders=toll.kills_of_holders, stops_of_holders=toll.stops_of_holders, lease=LEASE, seed=seed,
    )  # fmt: skip
    assert witness.verdict() == [], f"seed {seed}"
    assert witness.counts.grants >= FIGHT.grants
    with headgate.connect(direct) as gate:
        await_silence(
            gate, LEASE
        )  # An expired lock that was not reaped is not listed, and its end is not recorded yet.
        assert check_store(gate, direct) == []


@pytest.mark.torture
@pytest.mark.timeout(1000 if FULL else 120)
def test_eight_workers_on_a_chain_through_a_pooler(pooled: tuple[str, str], processes: Zygote, report: Report) -> None:
    url, direct = pooled
    seed = time.time_ns() % 2**32
    with headgate.connect(direct) as gate:
        define(gate)
        gate.ledger.publish("raw", [str(number) for number in range(CHAIN.chunks)])

        def all_made() -> bool:
            return len(gate.ledger.status("joined", status="READY")) == CHAIN.chunks

        chain = Chain(processes, url, ChainRules(LEASE), CHAIN, seed, all_made)
        chain.run()
        witness, toll = chain.witness, chain.toll
        report(
            store="postgresql", chunks=CHAIN.chunks, **witness.figures(), **witness.tally(), kills=toll.kills,
            kills_of_claims=toll.kills_of_holders, stops=toll.stops, lease=LEASE, seed=seed,
        )  # fmt: skip
        assert witness.verdict() == [], f"seed {seed}"
        assert check_store(gate, direct) == []
