"""Random walks: several consumers, an operator and a daemon on one store, and the tables alone as the model."""

import random
from collections.abc import Callable

import pytest

from headgate import Gate, HeadgateError, ItemLost, QueueRefused, TransitionRefused, UnknownName
from headgate.core.queue.model import ALL, Item, Taken, forward_event, is_batch, work_states
from headgate.core.tables.machine import By, Machine
from headgate.core.tables.states import BATCH, INGEST_JOB
from tests.contract.queue_model import Model, Thing
from tests.contract.queue_steps import WHO, WHY, as_taken, port
from tests.contract.steps import Gates

REFUSALS = (TransitionRefused, QueueRefused, ItemLost, UnknownName)
CONSUMERS = 3
STEPS = 600
PROFILES = ("demo", "maps")
OWNERS_EVENTS = sorted({row.event for table in (BATCH, INGEST_JOB) for row in table.rows if row.by is By.OWNER})
OTHERS_EVENTS = sorted({row.event for table in (BATCH, INGEST_JOB) for row in table.rows if row.by is not By.OWNER})


class Walk:
    """One walk: each step is executed on the store and on the model, with the same result."""

    def __init__(self, gates: Gates, seed: int) -> None:
        self.random = random.Random(seed)
        self.consumers = [gates.open() for _ in range(CONSUMERS)]
        self.operator = gates.open()
        self.model = Model()
        #: What each consumer believes to have, including what it lost long ago.
        self.papers: list[list[Taken]] = [[] for _ in range(CONSUMERS)]
        self.steps: list[str] = []

    def step(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (1, self.submit), (4, self.take_batch), (8, self.take_job), (1, self.give_back), (3, self.create),
            (12, self.fire), (6, self.act), (8 if self.model.holds else 1, self.hold), (1, self.reprioritize),
        ]  # fmt: skip
        self.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def submit(self) -> None:
        profile = self.random.choice(PROFILES)
        batch = self.operator.queue.submit(profile, "ann", "https://example.org/x")
        self.model.things[batch.id] = Thing(batch.id, "pending", profile)
        self.note("submit", batch.id)

    def take_batch(self) -> None:
        self.take(BATCH, lambda gate, state: gate.queue.acquire_batch(state))

    def take_job(self) -> None:
        self.take(INGEST_JOB, lambda gate, state: gate.queue.acquire_job(state))

    def take(self, machine: Machine, acquire: Callable[[Gate, str], Item | None]) -> None:
        number, states = self.random.randrange(CONSUMERS), work_states(machine)
        busy = [state for state in states if self.model.first(machine, state)]
        state = self.random.choice([*busy * 4, *states])
        expected = self.model.first(machine, state)
        item = acquire(self.consumers[number], state)
        self.note("take", machine.name, state, item and item.id)
        assert (item and item.id) == expected, self.steps
        if item:
            self.model.take(item.id, item.token)
            self.papers[number].append(as_taken(item))

    def give_back(self) -> None:
        if paper := self.any_paper():
            number, taken = paper
            self.both(
                f"give_back {taken}",
                lambda: self.consumers[number].queue.give_back(taken),
                lambda: self.model.give_back(taken),
            )

    def create(self) -> None:
        """A consumer creates a few jobs of a pending batch that it has taken."""
        for number, papers in enumerate(self.papers):
            mine = [taken for taken in papers if is_batch(taken.id) and self.model.has(taken)]
            if mine and mine[0].state == "pending":
                self.create_for(number, mine[0], self.model.things[mine[0].id])
                return

    def create_for(self, number: int, taken: Taken, thing: Thing) -> None:
        rows = [
            {"payload_url": "https://example.org", "priority": self.random.randrange(3)} for _ in range(thing.made + 2)
        ]
        assert self.consumers[number].queue.create_jobs(taken, rows) == len(rows)
        known = set(self.model.things)
        for job in self.operator.queue.jobs(batch=thing.id):
            if job.id not in known:
                self.model.things[job.id] = Thing(job.id, "pending", thing.profile, thing.id, job.priority)
        thing.made = len(rows)
        self.note("create", thing.id, len(rows))

    def fire(self) -> None:
        if paper := self.any_paper():
            number, taken = paper
            table = self.model.machine(taken.id)
            event = self.random.choice([*[forward_event(table, taken.state)] * 8, *OWNERS_EVENTS])
            self.both(
                f"fire {event} {taken}",
                lambda: self.consumers[number].queue.fire(taken, event, WHY),
                lambda: self.model.fire(taken, event),
            )

    def act(self) -> None:
        if not self.model.things:
            return
        item = self.random.choice(sorted(self.model.things))
        by = self.random.choice([By.OPERATOR, By.OPERATOR, By.DAEMON])
        fitting = self.model.machine(item).allowed(self.model.things[item].state)
        event = self.random.choice([*fitting * 4, *OTHERS_EVENTS])
        self.both(
            f"act {event} {by.name} {item}",
            lambda: port(self.operator).act(item, event, by, WHY, WHO),
            lambda: self.model.act(item, event, by),
        )

    def hold(self) -> None:
        profile = self.random.choice((*PROFILES, ALL))
        if self.model.holds:
            profile = self.random.choice(sorted(self.model.holds))
            assert self.operator.queue.clear_hold(profile)
            self.model.holds.discard(profile)
        else:
            self.operator.queue.set_hold(profile, reason=WHY)
            self.model.holds.add(profile)
        self.note("hold", sorted(self.model.holds))

    def reprioritize(self) -> None:
        jobs = [each for each in self.model.things.values() if each.batch and each.state not in ("cleaned", "deleted")]
        if jobs:
            job, priority = self.random.choice(jobs), self.random.randrange(100)
            self.operator.queue.set_priority(job.id, priority)
            job.priority = priority
            self.note("priority", job.id, priority)

    def any_paper(self) -> tuple[int, Taken] | None:
        """An item that a consumer has, or had: the former is more likely."""
        number = self.random.randrange(CONSUMERS)
        papers = self.papers[number]
        mine = [taken for taken in papers if self.model.has(taken)]
        return (number, self.random.choice([*papers[-10:], *mine * 8])) if papers else None

    def both(self, what: str, real: Callable[[], object], ideal: Callable[[], object]) -> None:
        expected, found = outcome(ideal), outcome(real)
        self.note(what, expected)
        assert found == expected, "\n".join(self.steps)

    def note(self, *words: object) -> None:
        self.steps.append(" ".join(map(str, words)))

    def compare(self) -> None:
        queue, story = self.operator.queue, "\n".join(self.steps)
        jobs = {job.id: (job.state, job.last_successful, job.retry_count, job.priority) for job in queue.jobs()}
        things = self.model.things.values()
        assert jobs == {
            each.id: (each.state, each.last, each.retries, each.priority) for each in things if each.batch
        }, story
        batches = {batch.id: (batch.state, batch.made, batch.jobs) for batch in queue.batches()}
        assert batches == {
            each.id: (each.state, each.made, self.model.counts(each.id)) for each in things if not each.batch
        }, story
        told = reversed(self.operator.history(limit=100_000))
        moves = [(entry.job, entry.event, entry.before, entry.after) for entry in told if entry.spent is not None]
        assert moves == self.model.told, story
        assert queue.faults() == []


def outcome(act: Callable[[], object]) -> str:
    """The outcome: done, or which refusal."""
    try:
        act()
    except REFUSALS as refusal:
        return type(refusal).__name__
    except HeadgateError as error:
        return repr(error)
    return "done"


@pytest.mark.parametrize("seed", range(2))
def test_a_walk_follows_the_tables(gates: Gates, seed: int) -> None:
    walk = Walk(gates, seed)
    for number in range(STEPS):
        walk.step()
        if number % 100 == 99:
            walk.compare()
    assert len(walk.model.told) > STEPS / 10, "it went somewhere"
