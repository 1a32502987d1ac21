"""Alarms for everything that is stuck, in one table of rules. Each alarm has the sentence that explains it and the
command that fixes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headgate.core.daemons import step_of
from headgate.core.ledger.watches.model import Watcher
from headgate.core.queue.model import Batch, Item
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural, plural_of

#: Shorter waits are not shown.
WORTH_SAYING = timedelta(minutes=1)
#: Items that have waited less than this are never called stuck, as long as a consumer can take them.
SHORTEST_WAIT = timedelta(minutes=15)
#: An item is stuck when it has waited this many times longer than items usually stay in its state.
FAR_LONGER = 10
#: The same, when it is not known how long items usually stay.
WITHOUT_EXPERIENCE = timedelta(hours=1)
#: A chunk that has waited this long is called stuck if its job has not run for as long either: most pipelines run once
#: a day. If the job once paused longer between two runs, the limit is this many times that pause.
UNCLAIMED, LONGER_PAUSE = timedelta(hours=25), 1.5
#: History and logs may stay this much longer than configured: if cron removes them once a day, one run may be missed.
OVERDUE = timedelta(days=2)
#: The prefix of consumer names.
CONSUMERS = ("batch-", "job-")
#: Daemons that work in rounds, with the work that can wait for them.
ROUNDS: Mapping[str, tuple[str, str]] = {
    "batch-watcher": ("batch whose jobs have ended waits to be reported",
                      "batches whose jobs have ended wait to be reported"),
    "messenger": ("message waits to be sent", "messages wait to be sent"),
    "timekeeper": ("dataset expects data, and its lateness has not been checked for 5 minutes",
                   "datasets expect data, and their lateness has not been checked for 5 minutes"),
    "cleaner": ("ingest job that completed more than a day ago waits to be cleaned up",
                "ingest jobs that completed more than a day ago wait to be cleaned up"),
}  # fmt: skip


#: Every kind of alarm.
KINDS_OF_ALARM = (
    "no-consumer", "unknown-profile", "no-daemon", "watcher", "quiet-watcher", "overdue-history", "overdue-logs",
    "long-wait", "unclaimed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that is stuck until an operator acts."""

    #: Which rule found it: `no-consumer`, `unknown-profile`, `no-daemon`, `watcher`, `quiet-watcher`,
    #: `overdue-history`, `overdue-logs`, `long-wait`, `unclaimed`.
    kind: str
    #: The batch, ingest job, profile, step or job concerned.
    item: str
    #: The sentence that explains it.
    what: str
    #: The command that fixes it, without the program's name.
    fix: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that fixes it."""
        return " ".join(("headgate", *(f"'{word}'" if " " in word else word for word in self.fix)))


@dataclass(frozen=True, slots=True)
class Backlog:
    """Items in one state that nobody has taken."""

    noun: str
    state: str
    count: int
    #: The item that would be taken next.
    first: Item
    #: Whether another item in this state is being worked on.
    some_taken: bool = False

    @property
    def step(self) -> str:
        """The consumer that they wait for."""
        return step_of(self.noun, self.state)


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Chunks that a job could claim while it works on none of them."""

    job: str
    #: The chunk that would be claimed next.
    dataid: str
    #: The least number of them.
    count: int
    #: When that chunk became claimable.
    since: datetime
    #: When the job last claimed a chunk; None: never.
    last_run: datetime | None = None
    #: The longest pause between two of its recent claims.
    longest_pause: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class AlarmFacts:
    """The facts that the rules look at, at one moment."""

    at: datetime
    waiting: Sequence[Backlog] = ()
    #: Steps that a living daemon works on.
    living: Collection[str] = ()
    #: False: other processes work on this queue without registering, so a missing consumer cannot be noticed.
    knows_consumers: bool = True
    #: Whether the whole queue is paused.
    paused: bool = False
    #: Pending batches whose profile cannot be used, with the reason for each.
    unusable: Sequence[tuple[Batch, str]] = ()
    #: Whether this machine has ingest profiles, without which `headgate up` runs no consumers.
    has_profiles: bool = True
    #: How much waits for each daemon that works in rounds.
    rounds: Mapping[str, int] = field(default_factory=dict)
    unclaimed: Sequence[Unclaimed] = ()
    watchers: Sequence[Watcher] = ()
    #: How overdue the removal of the oldest history entry is.
    history_overdue: timedelta = timedelta()
    #: The same for the oldest log of an attempt or step.
    logs_overdue: timedelta = timedelta()
    #: Noun and state to the time that items usually stay in it; None: nobody knows.
    usual: Callable[[str, str], timedelta | None] = lambda _noun, _state: None


def find_alarms(facts: AlarmFacts) -> list[Alarm]:
    """Everything that is stuck, according to the table of rules."""
    return [alarm for rule in RULES for alarm in rule(facts)]


def _unknown_profile(facts: AlarmFacts) -> Iterator[Alarm]:
    for batch, why in facts.unusable:
        yield Alarm("unknown-profile", batch.id, f"{batch.id} waits for a profile that cannot be used: {why}",
                    ("ingest", "profiles"))  # fmt: skip


def _no_consumer(facts: AlarmFacts) -> Iterator[Alarm]:
    missing = [each for each in facts.waiting if not _has_consumer(facts, each)]
    some = any(step not in ROUNDS and step.startswith(CONSUMERS) for step in facts.living)
    fix: tuple[str, ...] = ("daemon",) if facts.living else ("up",)
    why = ""
    if not facts.has_profiles:
        fix, why = ("ingest", "profiles"), "; there are no ingest profiles here, so `headgate up` runs none either"
    if len(missing) > 1 and not some:
        each_state = ", ".join(f"{_number(each)} {each.state}" for each in missing)
        what = f"{sum(each.count for each in missing):,} items wait ({each_state}), and no running daemon takes them"
        yield Alarm("no-consumer", "consumers", what + why, fix)
        return
    for each in missing:
        who = f"no running daemon takes {plural_of(each.noun)} in the state {each.state}"
        what = f"{_counted(each, _waited(facts, each))}, and {who}"
        yield Alarm("no-consumer", each.step, what + why, ("daemon", each.step) if some and not why else fix)


def _long_wait(facts: AlarmFacts) -> Iterator[Alarm]:
    for each in facts.waiting:
        waited = _waited(facts, each)
        if facts.paused or waited < SHORTEST_WAIT or not _has_consumer(facts, each):
            continue
        usual = facts.usual(each.noun, each.state)
        if waited < (WITHOUT_EXPERIENCE if usual is None else max(usual * FAR_LONGER, SHORTEST_WAIT)):
            continue
        than = "" if usual is None else f", far longer than usual ({in_words(usual.total_seconds())})"
        why = f": {each.first.message}" if each.first.message else ""
        name = each.first.id
        what = f"{name} has been {each.state} for {in_words(waited.total_seconds())}{than}{why}"
        show = "batch" if isinstance(each.first, Batch) else "job"
        yield Alarm("long-wait", name, what, ("ingest", show, name))


def _no_daemon(facts: AlarmFacts) -> Iterator[Alarm]:
    for name, (one, many) in ROUNDS.items():
        count = facts.rounds.get(name, 0)
        if count and name not in facts.living:
            waits = f"1 {one}" if count == 1 else f"{count:,} {many}"
            yield Alarm("no-daemon", name, f"{waits}, and no {name} is running", ("daemon", name))


def _overdue_history(facts: AlarmFacts) -> Iterator[Alarm]:
    for what, overdue, setting in (
        ("history", facts.history_overdue, "history_keep"), ("logs", facts.logs_overdue, "log_keep_for"),
    ):  # fmt: skip
        if overdue < OVERDUE:
            continue
        late = f"{what} should have been removed {_length(overdue)} ago (`{setting}`)"
        if "history" in facts.living:
            why = f"the history daemon does not keep up, or runs with another `{setting}`"
            yield Alarm(f"overdue-{what}", what, f"{late}: {why}", ("daemon", "history", "--once"))
        else:
            yield Alarm(f"overdue-{what}", what, f"{late}, and no history daemon is running", ("daemon", "history"))


def _unclaimed(facts: AlarmFacts) -> Iterator[Alarm]:
    for each in facts.unclaimed:
        idle = facts.at - max(each.since, each.last_run or each.since)
        if idle < max(UNCLAIMED, each.longest_pause * LONGER_PAUSE):
            continue
        chunks = f"{each.count:,} chunks wait" if each.count > 1 else "1 chunk waits"
        ran = f"last ran {_length(facts.at - each.last_run)} ago" if each.last_run else "has never run"
        waited = _length(facts.at - each.since)
        what = f"{chunks} for job {each.job}, which {ran}; the next one, {each.dataid}, has waited for {waited}"
        yield Alarm("unclaimed", each.job, what, ("job", "run", each.job, "--loop", "--", "COMMAND"))


def _watcher(facts: AlarmFacts) -> Iterator[Alarm]:
    for each in facts.watchers:
        fix = ("watch", "run", "PIPELINE.toml", each.dataset)
        silent, quiet = each.silent(facts.at), each.quiet(facts.at)
        if silent > each.patience:
            what = f"the watcher of {each.dataset} ({each.source}) last polled {_length(silent)} ago"
            yield Alarm("watcher", each.dataset, what + (f": {each.problem}" if each.problem else ""), fix)
        elif each.problem:
            yield Alarm("watcher", each.dataset, f"the watcher of {each.dataset} ({each.source}): {each.problem}",
                        ("watch", "list"))  # fmt: skip
        elif each.quiet_after is not None and quiet > timedelta(seconds=each.quiet_after):
            what = f"no new file has arrived for {each.dataset} in {each.source} for {_length(quiet)}"
            yield Alarm("quiet-watcher", each.dataset, what, ("watch", "list"))


#: Every rule, in the order in which alarms are shown.
RULES: Sequence[Callable[[AlarmFacts], Iterator[Alarm]]] = (
    _unknown_profile, _no_consumer, _no_daemon, _watcher, _overdue_history, _long_wait, _unclaimed,
)  # fmt: skip


def _has_consumer(facts: AlarmFacts, waiting: Backlog) -> bool:
    return not facts.knows_consumers or waiting.some_taken or waiting.step in facts.living


def _waited(facts: AlarmFacts, waiting: Backlog) -> timedelta:
    return max(facts.at - waiting.first.since, timedelta())


def _counted(waiting: Backlog, waited: timedelta) -> str:
    """What is waiting, and for how long if that is worth reporting."""
    one, long = waiting.count == 1, waited >= WORTH_SAYING
    verb = ("has been waiting" if one else "have been waiting") if long else "waits" if one else "wait"
    since = f" for {in_words(waited.total_seconds())}" if long else ""
    if one:
        return f"{waiting.first.id} {verb}{since}"
    return f"{_number(waiting)} {verb}{since} ({waiting.first.id} first)"


def _number(waiting: Backlog) -> str:
    return plural(waiting.count, waiting.noun)


def _length(time: timedelta) -> str:
    return in_words(time.total_seconds())
