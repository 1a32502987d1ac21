"""Eight processes compete for three resources while they are killed and stopped. An independent witness checks them."""

import time
from collections.abc import Sequence

import pytest

import headgate
from headgate.core.history import Entry
from tests.faults.arena import Toll
from tests.faults.conftest import FULL, Report
from tests.faults.fight import SLACK_SECONDS, WAITER_SECONDS, Fight, Plan, await_silence
from tests.faults.fighter import Rules
from tests.faults.processes import Zygote, now
from tests.faults.soundness import check_store, whole_history
from tests.faults.witness import Witness
from tests.fresh import scheme

PLAN = (
    Plan(grants=2000, kills=110, stops=45, pace=0.45, seconds=400)
    if FULL
    else Plan(grants=250, kills=10, stops=4, pace=0.45, seconds=75)
)
#: The shortest that makes sense with this load on two cores.
LEASE = 0.8


@pytest.fixture
def kind(store_url: str) -> str:
    return {"mysql": "mariadb"}.get(scheme(store_url), scheme(store_url))


@pytest.mark.torture
@pytest.mark.timeout(500)
def test_eight_processes_fight(store_url: str, kind: str, processes: Zygote, report: Report) -> None:
    """No overlap, no stale write, no error, every dead holder's lock free within two leases, a complete history."""
    lease = LEASE
    seed = time.time_ns() % 2**32
    headgate.connect(store_url).close()  # The race for the schema is another test.
    arena = Fight(processes, store_url, Rules(lease), PLAN, seed)
    began = time.monotonic()
    offset = time.time() - now()
    arena.run()
    ended = now()
    witness, toll = arena.witness, arena.toll
    report(store=kind, **witness.tally(), lease=lease, seed=seed, **counted(witness, toll))
    assert witness.verdict() == [], f"seed {seed}"
    with headgate.connect(store_url) as gate:
        await_silence(gate, lease)
        history = whole_history(gate)
        frees = freed_within(toll, history, offset, ended)
        assert check_store(gate, store_url) == []
    assert_all_told(witness, history)
    nexts = next_grants(witness, toll, lease)
    report(
        store=kind, seconds=round(time.monotonic() - began, 1), measured_frees=len(frees),
        worst_free=round(max(frees), 2), measured_nexts=len(nexts), worst_next_grant=round(max(nexts, default=0), 2),
    )  # fmt: skip
    assert_faults_hit(witness, toll)
    assert nexts or not FULL, "nobody was ever granted what a dead writer had held"
    assert max(frees) < 2 * lease + SLACK_SECONDS


def counted(witness: Witness, toll: Toll) -> dict[str, int]:
    """What happened, for the report."""
    hits = ("kills", "kills_of_holders", "kills_of_waiters", "stops", "stops_of_holders")
    return witness.figures() | {name: getattr(toll, name) for name in hits}


def assert_all_told(witness: Witness, history: Sequence[Entry]) -> None:
    """Each grant of a worker is in the history, by its token."""
    told = {(entry.resource, entry.token): entry.lock_id for entry in history if entry.event in ("grant", "upgrade")}
    for span in witness.spans:
        assert told.get((span.resource, span.token)) == span.lock_id


#: Holders that the machine starved for a whole lease, although they were not stopped: at most this fraction of grants.
STARVED = 0.05


def assert_faults_hit(witness: Witness, toll: Toll) -> None:
    """A run whose faults hit nothing proves nothing."""
    assert witness.counts.grants >= PLAN.grants
    assert (toll.kills, toll.stops) == (PLAN.kills, PLAN.stops)
    assert toll.kills_of_holders >= 0.4 * PLAN.kills
    assert toll.kills_of_waiters >= 1
    assert toll.stops_of_holders >= PLAN.stops // 2
    assert witness.counts.late_refused + witness.counts.losses >= PLAN.stops // 2
    assert witness.counts.starved <= STARVED * witness.counts.grants
    assert witness.counts.upgrades
    assert witness.counts.downgrades
    assert witness.counts.pairs


def freed_within(toll: Toll, history: Sequence[Entry], offset: float, ended: float) -> list[float]:
    """For each lock whose holder was killed: seconds from the kill until the store freed it, by the store's clock.

    The next client that asks for a resource ends an expired lock on it. After the fight no client asks, so locks that
    end later say nothing about the store; await_silence checks that they are no longer held.
    """
    ends = {(entry.lock_id, entry.token): entry for entry in history if entry.event == "expire"}
    frees = []
    for dead in toll.dead_holds:
        # No entry: it was killed after it had requested the release or the upgrade, which was done.
        end = ends.get((dead.span.lock_id, dead.span.token))
        if end and (freed := end.at.timestamp() - offset) < ended:
            frees.append(freed - dead.killed)
    assert len(frees) >= toll.kills_of_holders // 2, "the kills hit no holders"
    return frees


def next_grants(witness: Witness, toll: Toll, lease: float) -> list[float]:
    """For each dead writer: seconds until somebody else was granted the resource. Bounded by two leases, and more:

    by the pauses of stopped processes (one that is stopped within a transaction blocks all writers), and
    by dead waiters that stand before the living: one that is handed the resource has it for one more lease, one
    that waits for several resources keeps its place until it was not heard of for WAITER_SECONDS.
    """
    found = []
    for dead in toll.dead_holds:
        seconds = witness.next_grant(dead)
        if seconds is None or dead.span.mode == "shared":
            continue
        found.append(seconds)
        allowed = 2 * lease + SLACK_SECONDS + toll.paused_meanwhile(dead.killed, dead.killed + seconds)
        if any(
            at > dead.killed - WAITER_SECONDS for at, resource in toll.dead_waiters if resource == dead.span.resource
        ):
            allowed += WAITER_SECONDS + lease
        assert seconds < allowed, f"{dead} was free after {seconds:.2f} s, {allowed:.2f} s are allowed"
    return found
