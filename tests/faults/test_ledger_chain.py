"""Eight processes work on a chain of three jobs, and on two jobs with other data ids, before an independent witness.

They are killed and stopped meanwhile.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

import headgate
from headgate import Gate
from headgate.core.history import Entry
from tests.faults.chain import Chain, Plan
from tests.faults.chain_witness import ChainWitness
from tests.faults.chain_worker import FIVE, JOBS, MADE_BY, MAPPED_BY, MAPPED_JOBS, Rules, define, define_mapped
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Zygote
from tests.faults.soundness import ALL, check_store
from tests.fresh import scheme

PLAN = (
    Plan(chunks=5000, kills=200, stops=50, seconds=1500, mapped=True)
    if FULL
    else Plan(chunks=50, kills=10, stops=3, seconds=100, mapped=True)
)
#: What is made last, and how many of it.
LAST = {"joined": PLAN.chunks, "smoothed": PLAN.chunks, "bundled": PLAN.chunks // FIVE}
ALL_JOBS = JOBS | MAPPED_JOBS
#: The shortest that makes sense with this load on two cores.
LEASE = 0.8
#: Time for a worker to be scheduled and to get its answer, with eight of them, a server and possibly another test on
#: two cores. It widens the bound on time only, never a check of safety.
SLACK_SECONDS = 2.0
#: Claims whose worker the machine starved for a whole lease, although it was not stopped: at most this fraction.
STARVED = 0.05
#: An entry of a chunk with a window whose neighbours came later.
LATE = "late"


@pytest.mark.torture
@pytest.mark.timeout(1800 if FULL else 120)
def test_eight_workers_on_a_chain(sql_url: str, processes: Zygote, report: Report) -> None:
    """Every chunk is READY with one accepted success, and no input was read before it was READY."""
    seed = time.time_ns() % 2**32
    dataids = [f"{number // FIVE}.{number % FIVE}" for number in range(PLAN.chunks)]
    with headgate.connect(sql_url) as gate:
        define(gate)
        define_mapped(gate)
        gate.ledger.publish("raw", dataids)
        chain = Chain(processes, sql_url, Rules(LEASE, mapped=True), PLAN, seed, lambda: all_made(gate))
        began = time.monotonic()
        chain.run()
        witness, toll = chain.witness, chain.toll
        recoveries = witness.recoveries()
        report(
            store=scheme(sql_url), chunks=PLAN.chunks, **witness.figures(), **witness.tally(), kills=toll.kills,
            kills_of_claims=toll.kills_of_holders, stops=toll.stops, stops_of_claims=toll.stops_of_holders,
            worst_recovery=round(max(seconds for _, seconds in recoveries), 2), recoveries=len(recoveries), lease=LEASE,
            seconds=round(time.monotonic() - began, 1), seed=seed,
        )  # fmt: skip
        assert witness.verdict() == [], f"seed {seed}"
        assert [*untrue_rows(gate), *untrue_history(gate, witness)] == [], f"seed {seed}"
        assert gate.locks.list() == []
        assert check_store(gate, sql_url) == []
    for dead, seconds in recoveries:
        allowed = 2 * LEASE + SLACK_SECONDS + toll.paused_meanwhile(dead.killed, dead.killed + seconds)
        assert seconds < allowed, f"{dead} ran again after {seconds:.2f} s, {allowed:.2f} s are allowed"
    assert_faults_hit(chain)


def all_made(gate: Gate) -> bool:
    """The last jobs have made every chunk."""
    return all(len(gate.ledger.status(name, status="READY")) == count for name, count in LAST.items())


def untrue_rows(gate: Gate) -> Iterator[str]:
    """Every chunk is READY, and was read by all of its readers; nothing is left to do."""
    found = Counter((row.dataset, row.job, row.kind.value, row.status) for row in gate.ledger.status())
    expected = {("raw", "external", "OUTPUT", "READY"): PLAN.chunks}
    expected |= {(dataset, job, "OUTPUT", "READY"): PLAN.chunks for dataset, job in MADE_BY.items()}
    expected |= {(name, job, "INPUT", "DONE"): PLAN.chunks for job, inputs in JOBS.items() for name in inputs}
    for dataset, job in MAPPED_BY.items():
        made = {(dataset, job, "OUTPUT", "READY"): LAST[dataset]}
        expected |= made | {(name, job, "INPUT", "DONE"): LAST[dataset] for name in MAPPED_JOBS[job]}
    if found != expected:
        yield f"rows: {found}"
    for job in ALL_JOBS:
        plan = gate.ledger.plan(job)
        if plan.next or plan.blocked:
            yield f"{job} could still run: {plan}"


def untrue_history(gate: Gate, witness: ChainWitness) -> Iterator[str]:
    """One success for each chunk, by the recorded worker; every claim ended, none before its inputs succeeded."""
    told = list(reversed(gate.history(noun="chunk", limit=ALL)))
    lives: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in told:
        if entry.job in ALL_JOBS and entry.resource and entry.event != LATE:
            lives[entry.job, entry.resource.rpartition("/")[2]].append(entry)
    if len(lives) != PLAN.successes:
        yield f"{len(lives)} chunks have a history"
    for chunk, entries in lives.items():
        yield from untrue_life(chunk, entries, witness)
        yield from early_claims(chunk, lives)
    tokens = [entry.token for entry in told if entry.event == "claim"]
    if len(set(tokens)) != len(tokens):
        yield "a token was given twice"


def untrue_life(chunk: tuple[str, str], entries: list[Entry], witness: ChainWitness) -> Iterator[str]:
    """Claim and end in turn, and a success at the end: the one that the witness recorded."""
    events = [entry.event for entry in entries]
    if set(events[0::2]) != {"claim"} or set(events[1:-1:2]) - {"reap", "fail", "interrupt"} or events[-1] != "success":
        yield f"{chunk}: {events}"
    tries = {each.token: each for each in witness.tries[chunk]}
    successful = tries.get(entries[-1].token)
    if successful is None or not successful.may_be_done:
        yield f"{chunk}: the success with token {entries[-1].token} is not what was heard: {successful}"
    if any(each.success and each.accepted and token != entries[-1].token for token, each in tries.items()):
        yield f"{chunk}: an accepted success is not recorded: {tries}"


def early_claims(chunk: tuple[str, str], lives: dict[tuple[str, str], list[Entry]]) -> Iterator[str]:
    """By the store's own record: no claim comes before the success of one of its inputs."""
    job, dataid = chunk
    for name in JOBS.get(job, ()):
        made = lives.get((MADE_BY[name], dataid)) if name in MADE_BY else None
        if made and lives[chunk][0].id < made[-1].id:
            yield f"{chunk} was claimed before its input {name} was READY"


def assert_faults_hit(chain: Chain) -> None:
    """A run whose faults hit nothing proves nothing."""
    toll, witness = chain.toll, chain.witness
    assert (toll.kills, toll.stops) == (PLAN.kills, PLAN.stops)
    assert toll.kills_of_holders >= 0.4 * PLAN.kills
    assert toll.stops_of_holders >= PLAN.stops // 2
    assert witness.chain.duplicates_refused + witness.chain.stale_refused >= PLAN.stops // 3
    assert witness.chain.claims > PLAN.successes
    assert witness.counts.starved <= STARVED * witness.chain.claims
