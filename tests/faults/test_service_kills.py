"""The service is killed under eight clients: everything it confirmed is done, and nothing was done twice."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from tests.faults.chain_worker import define
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Zygote
from tests.faults.replicas import Replicas
from tests.faults.services import Service
from tests.faults.siege import LOCKS, Plan, Siege, SiegeWitness
from tests.faults.soundness import ALL, check_store, whole_history
from tests.fresh import scheme
from tests.shared_servers import Servers

PLAN = (
    Plan(answers=20_000, kills=60, chunks=6000, lease=60, seconds=1700)
    if FULL
    else Plan(answers=800, kills=6, chunks=400, lease=60, seconds=280)
)
REPLICAS_PLAN = (
    Plan(answers=20_000, kills=60, chunks=6000, lease=60, seconds=1700)
    if FULL
    else Plan(answers=400, kills=2, chunks=200, lease=60, seconds=280)
)


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 300)
def test_a_service_that_is_killed_loses_nothing_and_does_nothing_twice(
    processes: Zygote, report: Report, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    prepare(url, PLAN)
    victim = Service(tmp_path, url)
    siege = Siege(processes, victim, PLAN, time.time_ns() % 2**32)
    try:
        besiege(siege, url, report)
    finally:
        victim.discard()
    assert siege.toll.kills == PLAN.kills
    assert siege.unseen <= PLAN.kills // 5, "the kills hit nobody"


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 300)
def test_callers_continue_when_one_of_two_replicas_is_killed(
    processes: Zygote, report: Report, servers: Servers, tmp_path: Path
) -> None:
    """Two services on one store behind HAProxy, each killed in turn under eight callers."""
    url = servers.fresh("postgresql")
    prepare(url, REPLICAS_PLAN)
    victims = Replicas(tmp_path, url)
    siege = Siege(processes, victims, REPLICAS_PLAN, time.time_ns() % 2**32)
    try:
        besiege(siege, url, report)
    finally:
        victims.discard()
    servers.leave("postgresql", url)
    assert siege.toll.kills == REPLICAS_PLAN.kills
    assert siege.served >= REPLICAS_PLAN.kills // 2, "callers had to wait for the one that was killed"


def prepare(url: str, plan: Plan) -> None:
    with headgate.connect(url) as gate:
        define(gate)
        gate.ledger.publish("raw", [str(number) for number in range(plan.chunks)])


def besiege(siege: Siege, url: str, report: Report) -> None:
    """Run it; then everything that callers got is kept, once, and nothing else is."""
    began = time.monotonic()
    siege.run()
    witness = siege.witness
    report(
        store=scheme(url), answers=witness.answers, kills=siege.toll.kills, kills_that_nobody_saw=siege.unseen,
        kills_with_answers_meanwhile=siege.served,
        calls_without_an_answer=witness.aways, **witness.figures(), **witness.tally(), batches=len(witness.batches),
        refusals=witness.counts.refusals, seed=siege.seed, seconds=round(time.monotonic() - began, 1),
    )  # fmt: skip
    assert witness.verdict() == [], f"seed {siege.seed}"
    with headgate.connect(url) as gate:
        assert check_store(gate, url) == []
        assert [*untrue_locks(gate, witness), *untrue_claims(gate, witness), *untrue_batches(gate, witness)] == []


def untrue_locks(gate: Gate, witness: SiegeWitness) -> Iterator[str]:
    """Every grant was returned to one client, once, and is kept; no lock is held any more."""
    granted = Counter((each.resource, each.token) for each in whole_history(gate) if each.event == "grant")
    told = Counter((span.resource, span.token) for span in witness.spans if span.resource.startswith(LOCKS))
    yield from (f"returned, and not kept: {each}" for each in told - granted)
    yield from (f"kept, and returned to nobody: {each}" for each in granted - told)
    yield from (f"still held: {lock}" for lock in gate.locks.list())


def untrue_claims(gate: Gate, witness: SiegeWitness) -> Iterator[str]:
    """Every claim was returned to one worker, once; every accepted success is kept, and no chunk has two."""
    history = gate.history(noun="chunk", limit=ALL)
    claimed = Counter(each.token for each in history if each.event == "claim")
    told = Counter(each.token for tries in witness.tries.values() for each in tries)
    yield from (f"claimed, and returned to nobody: {each}" for each in claimed - told)
    yield from (f"returned, and not claimed: {each}" for each in told - claimed)
    done = Counter((each.job, each.resource, each.token) for each in history if each.event == "success")
    yield from (f"done more than once: {each}" for each, count in done.items() if count > 1)
    tokens = {token for _, _, token in done}
    accepted = {each.token for tries in witness.tries.values() for each in tries if each.success and each.accepted}
    yield from (f"accepted, and not done: {each}" for each in accepted - tokens)
    yield from (f"done, though it was refused: {each}" for each in tokens - accepted)


def untrue_batches(gate: Gate, witness: SiegeWitness) -> Iterator[str]:
    """One batch for each key, however often it was sent."""
    kept = {batch.id for batch in gate.queue.batches()}
    told = set(witness.batches.values())
    if len(told) != len(witness.batches):
        yield "two keys gave one batch"
    yield from (f"returned, and not kept: {each}" for each in told - kept)
    yield from (f"kept, and returned to nobody: {each}" for each in kept - told)
