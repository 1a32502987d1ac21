"""Recorded histories of every store are linearizable, and the checker detects each of twelve planted faults."""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from tests.faults import history
from tests.faults.arena import Act
from tests.faults.chain_worker import JOBS, MADE_BY, define
from tests.faults.conftest import FULL, Report
from tests.faults.history import FAIL, INFO, OK, Op
from tests.faults.linearizable import violations
from tests.faults.models import RwLock, chain_model
from tests.faults.processes import Zygote, now
from tests.faults.recorder import Rules
from tests.faults.recording import Recording
from tests.fresh import scheme

SECONDS, GENERATIONS = (5.0, 20) if FULL else (1.5, 2)
#: Chunks for each generation: more than the workers can make.
CHUNKS = 200


class Undisturbed(Recording):
    """Workers without faults, for some generations of resources."""

    def _plan_acts(self) -> Sequence[Act]:
        return [self._go_on] * GENERATIONS

    def _is_due(self) -> bool:
        return all(worker.ready for worker in self._workers.values())

    def _struck(self) -> None:
        pass

    def _is_over(self) -> bool:
        return True

    def _go_on(self, _desperate: bool) -> bool:
        self.generation += 1
        self.listen_for(SECONDS)
        return True


@pytest.mark.torture
@pytest.mark.timeout(600 if FULL else 120)
def test_recorded_histories_are_linearizable(store_url: str, processes: Zygote, report: Report, tmp_path: Path) -> None:
    """Eight processes, some with leases that expire; for every answer there is a moment at which it was true."""
    zookeeper = scheme(store_url) == "zookeeper"
    with headgate.connect(store_url) as gate:
        if not zookeeper:
            publish(gate, GENERATIONS * CHUNKS)
    seed = time.time_ns() % 2**32
    run = Undisturbed(processes, [(store_url, None)], Rules(1.0, ledger=not zookeeper), 500, seed)
    run.run()
    found = run.witness.judgement()
    report(store=scheme(store_url), violations=len(found), seed=seed, **run.witness.totals())
    run.assert_sound(found, tmp_path)
    assert run.witness.counts.grants
    assert run.witness.chain.claims or zookeeper


def publish(gate: Gate, count: int) -> None:
    define(gate)
    gate.ledger.publish("raw", [str(number) for number in range(count)])


# ------------------------------------------------------------------ planted faults

LEASE = 5.0
CHAIN = chain_model(JOBS, MADE_BY)
#: Histories are written with whole seconds; an answer comes this long after its question.
ANSWER = 0.1


def op(process: str, f: str, at: float, outcome: str = OK, key: str = "r", **value: object) -> Op:
    """One operation that begins at that second."""
    return Op(process, f, key, {"lease": LEASE, **value}, at, at + ANSWER, outcome)


def sound_locks() -> list[Op]:
    """Concurrent readers, a single writer, a refusal, an expired lease, a renewal, a late release."""
    return [
        op("a", "acquire", 1, mode="shared", token=1),
        op("b", "acquire", 2, mode="shared", token=2),
        op("c", "acquire", 3, FAIL, mode="exclusive"),
        op("a", "release", 4, token=1),
        op("b", "release", 5, token=2),
        op("c", "acquire", 6, mode="exclusive", token=3),
        op("a", "acquire", 7, FAIL, mode="shared"),
        op("c", "renew", 9, token=3),
        op("c", "check", 10, token=3),
        op("a", "acquire", 20, mode="exclusive", token=7),
        op("c", "release", 21, FAIL, token=3),
        op("a", "release", 22, token=7),
    ]


def sound_chunks() -> list[Op]:
    """A chunk that is made, read, failed once, lost once, and reported twice."""
    chunk = {"key": "d1"}
    return [
        op("a", "claim", 1, job="tidy", token=1, **chunk),
        op("a", "heartbeat", 2, job="tidy", token=1, **chunk),
        op("b", "claim", 3, FAIL, job="tidy", **chunk),
        op("a", "success", 4, job="tidy", token=1, **chunk),
        op("a", "success", 5, job="tidy", token=1, **chunk),
        op("b", "status", 6, job="tidy", status="READY", **chunk),
        op("b", "claim", 7, job="enrich", token=2, **chunk),
        op("b", "fail", 8, job="enrich", token=2, **chunk),
        op("c", "claim", 9, job="enrich", token=3, **chunk),
        op("b", "claim", 20, job="enrich", token=4, **chunk),
        op("c", "success", 21, FAIL, job="enrich", token=3, **chunk),
        op("b", "success", 22, job="enrich", token=4, **chunk),
        op("a", "claim", 23, job="join", token=5, **chunk),
        op("a", "success", 24, job="join", token=5, **chunk),
    ]


def judged(ops: Sequence[Op]) -> list[str]:
    locks = [each for each in ops if each.key == "r"]
    chunks = [each for each in ops if each.key != "r"]
    return [str(each) for each in (*violations(locks, RwLock()), *violations(chunks, CHAIN))]


def changed(ops: list[Op], place: int, outcome: str = "", **value: object) -> list[Op]:
    """The history with one answer that differs."""
    one = ops[place]
    return [*ops[:place], replace(one, outcome=outcome or one.outcome, value=one.value | value), *ops[place + 1 :]]


def added(ops: list[Op], *more: Op) -> list[Op]:
    return sorted([*ops, *more], key=lambda each: each.invoked)


def double_grant(ops: list[Op]) -> list[Op]:
    """A second writer is granted beside the first."""
    return added(ops, op("d", "acquire", 8, mode="exclusive", token=4), op("d", "release", 8.5, token=4))


def token_goes_back(ops: list[Op]) -> list[Op]:
    """A later grant has a smaller token."""
    return [*changed(ops, 9, token=2)[:-2], op("a", "release", 22, token=2)]


def duplicated_token(ops: list[Op]) -> list[Op]:
    """Two grants have the same token."""
    return [*changed(ops, 5, token=2)[:7], op("c", "release", 8, token=2)]


def lost_release(ops: list[Op]) -> list[Op]:
    """A release was confirmed, and the lock still blocks, long before its lease expires."""
    return added(ops, op("d", "acquire", 22.5, FAIL, mode="shared"))


def shared_beside_exclusive(ops: list[Op]) -> list[Op]:
    """A reader is granted beside a writer."""
    return changed(ops, 6, outcome=OK, token=4)


def grant_against_the_order_of_refusal(ops: list[Op]) -> list[Op]:
    """A writer is refused before any grant of the resource, without waiters."""
    return added(ops, op("d", "acquire", 0.5, FAIL, mode="exclusive"))


def renewal_after_expiry(ops: list[Op]) -> list[Op]:
    """A lease that has certainly expired is renewed, although no other client was granted the lock."""
    return [each for each in added(ops, op("c", "renew", 19, token=3)) if each.invoked < 20]


def stale_success(ops: list[Op]) -> list[Op]:
    """Success is accepted from a worker whose chunk was claimed by another."""
    return changed(ops, 10, outcome=OK)


def unready_input(ops: list[Op]) -> list[Op]:
    """A job claims a chunk whose input is being made."""
    return added(ops, op("d", "claim", 2.5, job="enrich", token=1, key="d1"))


def double_success(ops: list[Op]) -> list[Op]:
    """A chunk that is READY is claimed and reported again."""
    again = (op("d", "claim", 25, job="join", token=6, key="d1"), op("d", "success", 26, job="join", token=6, key="d1"))
    return added(ops, *again)


def lost_write(ops: list[Op]) -> list[Op]:
    """Success was confirmed, and the chunk is not READY."""
    return changed(ops, 5, status="ERROR")


def claim_of_a_held_chunk(ops: list[Op]) -> list[Op]:
    """A chunk is claimed by a second worker during the first one's lease."""
    return changed(ops, 2, outcome=OK, token=2)


Plant = Callable[[list[Op]], list[Op]]
PLANTS: dict[Plant, Callable[[], list[Op]]] = {
    double_grant: sound_locks,
    token_goes_back: sound_locks,
    duplicated_token: sound_locks,
    lost_release: sound_locks,
    shared_beside_exclusive: sound_locks,
    grant_against_the_order_of_refusal: sound_locks,
    renewal_after_expiry: sound_locks,
    stale_success: sound_chunks,
    unready_input: sound_chunks,
    double_success: sound_chunks,
    lost_write: sound_chunks,
    claim_of_a_held_chunk: sound_chunks,
}


@pytest.mark.parametrize("sound", [sound_locks, sound_chunks])
def test_a_sound_history_is_accepted(sound: Callable[[], list[Op]]) -> None:
    assert judged(sound()) == []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_detected(plant: Plant) -> None:
    assert judged(plant(PLANTS[plant]()))


def test_twelve_faults_are_planted() -> None:
    assert len(PLANTS) == 12


def test_a_call_without_an_answer_may_have_happened_or_not() -> None:
    """Whether the lost release happened decides the next answer; both answers are valid, but not together."""
    held = [op("a", "acquire", 1, mode="exclusive", token=1), replace(op("a", "release", 2, INFO, token=1), ended=9e9)]
    granted = op("b", "acquire", 3, mode="exclusive", token=2)
    refused = op("b", "acquire", 3, FAIL, mode="exclusive")
    assert judged([*held, granted]) == judged([*held, refused]) == []
    assert judged([*held, granted, replace(refused, process="c", invoked=2.5, ended=2.6)]) == []
    assert judged([*held, granted, op("b", "release", 3.5, token=2), op("c", "acquire", 4, FAIL, mode="shared")])


def test_concurrent_calls_may_have_happened_in_any_order() -> None:
    """The call that was answered last took effect first."""
    one = replace(op("a", "acquire", 1, mode="exclusive", token=2), ended=9)
    other = replace(op("b", "acquire", 1.5, mode="exclusive", token=1), ended=2)
    assert judged([one, other, op("b", "release", 3, token=1), op("a", "release", 10, token=2)]) == []
    assert judged([one, other, op("b", "release", 9.5, token=1)]) != []


def test_a_long_random_history_is_decided_quickly() -> None:
    """Eight clients of a correct lock, a thousand calls: accepted; with one answer changed: not."""
    ops = simulated(random.Random(7), 1000)
    assert judged(ops) == []
    place = next(n for n, each in enumerate(ops) if n > 500 and each.f == "acquire" and each.outcome == FAIL)
    assert judged(changed(ops, place, outcome=OK, token=10**6))


def test_many_calls_without_an_answer_are_decided_quickly() -> None:
    """Two dozen calls with unknown effect: any of them may explain a refusal, none explains an overlap."""
    ops: list[Op] = []
    for number in range(24):
        at = 10.0 * number
        mode = "shared" if number % 3 else "exclusive"
        ops += [
            replace(op(f"lost{number}", "acquire", at, INFO, mode=mode), ended=math.inf),
            op("a", "acquire", at + 1, FAIL, mode="exclusive"),
            op("a", "acquire", at + 8, mode="exclusive", token=number + 1),
            replace(op("a", "release", at + 9, INFO, token=number + 1), ended=math.inf),
        ]
    assert judged(ops) == []
    assert judged([*ops, op("b", "acquire", 238.5, mode="exclusive", token=25), op("a", "check", 238.8, token=24)])


def simulated(chance: random.Random, count: int) -> list[Op]:
    """Calls on one lock, executed one by one at random moments between call and answer."""
    holders: dict[str, tuple[int, str]] = {}
    found, at, token = [], 0.0, 0
    for _ in range(count):
        at += chance.expovariate(100)
        process = chance.choice("abcdefgh")
        begin, end = at - chance.uniform(0, 0.004), at + chance.uniform(0, 0.004)
        if process in holders:
            value: dict[str, object] = {"token": holders.pop(process)[0]}
            outcome, f = OK, "release"
        else:
            mode, f = chance.choice(["shared", "exclusive"]), "acquire"
            free = all(mode == "shared" == other for _, other in holders.values())
            token += free
            value, outcome = {"mode": mode, **({"token": token} if free else {})}, OK if free else FAIL
            if free:
                holders[process] = (token, mode)
        found.append(Op(process, f, "r", {"lease": 1e6, **value}, begin, end, outcome))
    return sorted(found, key=lambda each: each.invoked)


def test_histories_are_kept_as_lines_of_json(tmp_path: Path) -> None:
    began = now()
    asked = {"process": "a", "type": "invoke", "f": "acquire", "key": "r", "value": {"mode": "shared"}, "time": began}
    answered = asked | {"type": "ok", "value": {"token": 1}, "time": began + 1}
    history.save([asked, answered, asked | {"process": "b"}], tmp_path / "history.jsonl")
    first, second = history.ops_of(history.load(tmp_path / "history.jsonl"))
    assert (first.outcome, first.value, second.outcome) == (OK, {"mode": "shared", "token": 1}, INFO)
