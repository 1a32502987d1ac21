"""A chunk while events are fired at it as the table says; every effect becomes a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from headgate.core.access.owners import Override
from headgate.core.access.principals import must_own
from headgate.core.errors import ClaimLost, ClaimRefused
from headgate.core.incidents import KINDS, IncidentChange
from headgate.core.ledger.claims import claim_modes, find_candidate, may_claim, retry_delay
from headgate.core.ledger.mappings.model import OnLate
from headgate.core.ledger.model import (
    DONE,
    ERROR,
    HOLD,
    MESSAGE_LENGTH,
    READY,
    RESUBMIT,
    RUNNING,
    Kind,
    Row,
)
from headgate.core.ledger.parts import Listed, listing, part_changes, turned
from headgate.core.ledger.rules import ABSENT, ChunkFacts, state_of, word_of
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkRecord, ChunkSnapshot, RowChange, worst_row
from headgate.core.ledger.sources import Reading, SourceSet, late_sentence, readings, with_newer
from headgate.core.tables.machine import Also, By, Transition

T = TypeVar("T")


class ChunkDraft:
    """A snapshot of a chunk that events change."""

    def __init__(self, snapshot: ChunkSnapshot) -> None:
        self.job = snapshot.job
        self.rules = snapshot.rules
        #: The chunk as it is now.
        self.chunk = snapshot
        self._before = snapshot
        self._records: list[ChunkRecord] = []
        self._incidents: list[IncidentChange] = []
        self._overrides: list[Override] = []
        self._started: set[tuple[Kind, str]] = set()
        self._tokens = 0
        #: The status that unhold restores if the chunk is to be redone; a job without outputs has no row then.
        self._again = RESUBMIT if self.job.outputs else ""

    def outcome(self, result: T, *, check: bool = False) -> ChunkOutcome[T]:
        """List everything that changes. `check`: write its position in the list of find_next in any case."""
        before, after = self._before, self.chunk
        if before is after and not check:
            return ChunkOutcome(result, after, overrides=tuple(self._overrides))
        ready, now_ready = before.ready_outputs(), after.ready_outputs()
        changes = tuple(self._changes())
        return ChunkOutcome(
            result, after, changes, tuple(self._records), now_ready - ready, ready - now_ready | _removed(changes),
            find_candidate(after), self._reads(), changed=True, overrides=tuple(self._overrides),
            incidents=tuple(self._incidents), parts=tuple(part_changes(before.parts, after.parts)),
        )  # fmt: skip

    # ------------------------------------------------------------ guards

    def find_row(self, event: str, row: Row | None, *, named: bool = True) -> Transition:
        """The row of the table for the chunk's own state; TransitionRefused if there is none."""
        state = ABSENT if row is None else state_of(row.status, row.kind)
        return self.rules.row(state, event, ChunkFacts(self.job, row, named=named, due=self.chunk.is_due(row)))

    def refuse_alive(self, event: str, *, steal: bool) -> None:
        """ClaimRefused while a worker is processing it, unless an operator overrides its claim."""
        alive = next((row for row in self.chunk.owned() if row.alive), None)
        if alive is None:
            return
        found = self.rules.find(RUNNING, event, ChunkFacts(self.job, alive))
        can_steal = found is not None and found.by is By.OPERATOR
        if not (steal and can_steal):
            advice = ", or override its claim with steal" if can_steal else ""
            raise ClaimRefused(
                self.job.name, self.chunk.dataid,
                f"a worker is processing it: {alive.sentence()}. Wait for it{advice}",
            )  # fmt: skip

    def refuse_locked(self, *, steal: bool) -> None:
        """ClaimRefused while locks on it, or jobs that read it, conflict with a claim."""
        chunk, compatible = self.chunk, self.chunk.lock_rules.compatible
        modes = claim_modes(chunk)
        held = [lock for lock in chunk.locks if not compatible[modes[lock.resource], lock.mode]]
        readers = [each for each in may_claim(chunk).blockers if each.name == "reader"]
        why = [f"{lock.client} holds {lock.resource} {lock.mode} [lock {lock.id}]" for lock in held]
        why += [] if steal else [each.text for each in readers]
        if why:
            raise ClaimRefused(self.job.name, chunk.dataid, f"{self.job.name} on {chunk.dataid}: " + "; ".join(why))

    def may_report(self, event: str, token: int) -> bool:
        """Whether the claim with this token is running; False: this event was reported already. ClaimLost: neither."""
        rows = self.rules.machine.rows_of(RUNNING, event)
        guards = {row.by for row in rows} or {By.WORKER}
        row = self.chunk.speaker
        if row is None:
            raise self._lost(token, "there is no such claim")
        if row.status == RUNNING and row.token == token:  # An older one is always lost.
            what = f"the claim of {self.job.name} on {self.chunk.dataid}"
            self._overrides += must_own(self.chunk.actor, what, row.principal)
        if row.token != token and guards <= {By.WORKER}:
            raise self._lost(token, f"the newest claim has token {row.token}; it is {row.status}")
        if By.STORE in guards and row.alive:
            raise self._lost(token, "its lease has not expired")
        if row.status == RUNNING and all(each.token == row.token for each in self.chunk.owned()):
            return True
        if not _may_have_led_to(rows, row):
            raise self._lost(token, f"it is not running: it is {row.status}")
        return False

    def _lost(self, token: int, why: str) -> ClaimLost:
        return ClaimLost(self.job.name, self.chunk.dataid, token, why)

    # ------------------------------------------------------------ events

    def start(self, event: str, worker: str, lease: float, reason: str = "") -> None:
        """A claim: all its rows become RUNNING, with the counts of the row that represents the chunk."""
        chunk = self.chunk
        speaker, before = chunk.speaker, chunk.status
        row = self.find_row(event, speaker)
        prior = worst_row(chunk.owned()) or Row("", chunk.dataid, self.job.name, Kind.OUTPUT, ABSENT)
        running = replace(
            _count(prior, row.also), status=row.target, former=_blocking_word(speaker),
            token=self.token_after(row, prior.token), worker=worker, lease=lease, expires_in=lease,
            forced=row.by is By.OPERATOR, retry_in=None, message="", principal=chunk.actor.principal,
        )  # fmt: skip
        for kind, names in ((Kind.OUTPUT, self.job.outputs), (Kind.INPUT, self.job.inputs)):
            for name in names:
                self._started.add((kind, name))
                self.put(kind, name, replace(running, dataset=name, kind=kind))
        self.chunk = replace(self.chunk, reads=readings(chunk.sources.values()))
        self.turn_parts(running.status, running.token)
        self.record(row, worker, running.token, before, running.status, reason)

    def end(self, event: str, base: Row, who: str, message: str = "") -> None:
        """The claim ends: its rows get the table's status, with the counts of `base` and those of this event."""
        row = self.find_row(event, base)
        status = word_of(row.target, self.job.counted, base.former)
        counts, token = _count(base, row.also), self.token_after(row, base.token)
        tries = counts.failures + counts.crashes
        # An interrupted claim may have changed the output, so it is redone when it is released.
        unheld = self._again if row.also.has(Also.COUNT_INTERRUPTION) else ERROR
        delay = retry_delay(self.job, tries) if status == ERROR and tries else 0.0
        for own in self.chunk.owned():
            if own.status == RUNNING:
                counted = own.kind is self.job.counted
                word = status if counted else _beside(row)
                after = replace(
                    own, status=word, former=unheld if counted and word == HOLD else "", token=token, lease=None,
                    expires_in=None, retry_in=delay or None, message=message[:MESSAGE_LENGTH],
                    attempt=counts.attempt, failures=counts.failures, crashes=counts.crashes,
                    interruptions=counts.interruptions,
                )  # fmt: skip
                self.put(own.kind, own.dataset, None if word == ABSENT else after)
        self.turn_parts(word_of(row.target, Kind.OUTPUT, base.former), token, message[:MESSAGE_LENGTH])
        self.record(row, who, token, RUNNING, status, message)

    def reap(self, who: str) -> bool:
        """End a claim whose lease has expired. False if there is none."""
        dead = worst_row([row for row in self.chunk.owned() if row.expired])
        if dead is None or self.chunk.alive:
            return False
        row = self.rules.find(RUNNING, "reap", ChunkFacts(self.job, dead))
        if row is None or row.by is not By.STORE:
            return False
        # Its last output, if its log was kept.
        last = f"; its last line: {dead.message}" if dead.message and not dead.forced else ""
        self.end(row.event, dead, who, f"lease expired: {dead.worker or 'its worker'} died{last}")
        return True

    def redo(self, own: Row, row: Transition, reason: str, *, delay: float = 0.0) -> None:
        """Reset one of the rows that keep the chunk's status, or remove it."""
        word = word_of(row.target, own.kind)
        held = word == HOLD
        after = replace(
            _count(own, row.also), status=word, former=self._again if held else "", lease=None, expires_in=None,
            retry_in=delay or None, message=own.message if held else reason, token=self.token_after(row, own.token),
        )  # fmt: skip
        self.put(own.kind, own.dataset, None if word == ABSENT else after)

    def miss(self, late: Sequence[tuple[SourceSet, Reading]], who: str) -> None:
        """Inputs arrived or changed after the chunk was made: note it, or redo the chunk."""
        redo = [source.map.late_delay for source, _ in late if source.map.on_late is OnLate.REDO]
        speaker = self.chunk.speaker
        facts = ChunkFacts(self.job, speaker, redo=bool(redo))
        row = self.rules.find(self.chunk.state, "late", facts) if late else None
        if row is None or speaker is None:
            return
        before, why = speaker.status, late_sentence(late)
        for own in self.chunk.counted():
            if own is not None and own.status == before:
                self.redo(own, row, why, delay=max(redo, default=0.0))
        self.leave_inputs(row)
        self.turn_parts(row.target, speaker.token, why)
        self.chunk = replace(self.chunk, reads=with_newer(self.chunk.reads, [each for _, each in late]))
        self.record(row, who, speaker.token, before, self.chunk.status, why)

    def leave_inputs(self, row: Transition) -> None:
        """The rows of the job's inputs: removed if the table says so; otherwise none of them stays RUNNING."""
        for own in self.chunk.owned() if self.job.outputs else ():
            if own.kind is Kind.INPUT and (own.status == RUNNING or row.also.has(Also.CLEAR_INPUTS)):
                word = _beside(row)
                after = replace(own, status=word, lease=None, expires_in=None, retry_in=None)
                self.put(own.kind, own.dataset, None if word == ABSENT else after)

    # ------------------------------------------------------------ fan-out

    def turn_parts(self, status: str, token: int, message: str = "") -> None:
        """The chunk's fan-out parts get the same status; absent: they are removed."""
        if self.chunk.parts:
            self.chunk = replace(self.chunk, parts=tuple(turned(self.chunk.parts, status, token, message)))

    def list_parts(self, listed: Listed, token: int) -> None:
        """A success lists its fan-out parts."""
        parts = listing(self.chunk.parts, listed, self.job.name, self.chunk.dataid, token)
        self.chunk = replace(self.chunk, parts=tuple(parts))

    # ------------------------------------------------------------ rows

    def put(self, kind: Kind, dataset: str, after: Row | None) -> None:
        """A row changes to this; None: it is removed."""
        old = self.chunk.own(kind, dataset)
        if after is not old:
            rows = tuple(row for row in self.chunk.rows if row is not old)
            written = () if after is None else (replace(after, since=None),)
            self.chunk = replace(self.chunk, rows=(*rows, *written))

    def token_after(self, row: Transition, token: int) -> int:
        """The token after an event: unchanged, or a new one, represented by a negative number."""
        if not row.also.has(Also.NEW_TOKEN):
            return token
        self._tokens -= 1
        return self._tokens

    def record(self, row: Transition, who: str, token: int, before: str, after: str, reason: str) -> None:
        """A history entry, and an incident that opens or closes, if the table asks for them."""
        if row.also.has(Also.RECORD_HISTORY):
            why = self.chunk.actor.reason(reason)[:MESSAGE_LENGTH]
            self._records.append(ChunkRecord(row.event, who, token, before, after, why))
        if row.also.has(Also.OPEN_INCIDENT):
            self._incidents.append(IncidentChange(KINDS[row.event], reason[:MESSAGE_LENGTH]))
        elif row.also.has(Also.CLOSE_INCIDENT):
            self._incidents.append(IncidentChange("", row.event))

    def _reads(self) -> tuple[Reading, ...] | None:
        """What it reads by mappings; nothing once it has no input rows. None: as before."""
        if not self.job.mapped:
            return None
        after = self.chunk.reads if any(row.kind is Kind.INPUT for row in self.chunk.owned()) else ()
        return None if after == self._before.reads else after

    def _changes(self) -> Iterator[RowChange]:
        before, after = self._before, self.chunk
        for kind, names in ((Kind.OUTPUT, self.job.outputs), (Kind.INPUT, self.job.inputs)):
            for name in names:
                old, new = before.own(kind, name), after.own(kind, name)
                if old is not new:
                    yield RowChange(old, new, (kind, name) in self._started)


def _removed(changes: Iterable[RowChange]) -> frozenset[str]:
    """The datasets that no longer have the chunk. A mapping may have waited for it even if it was not READY."""
    rows = (each.before for each in changes if each.after is None)
    return frozenset(row.dataset for row in rows if row and row.kind is Kind.OUTPUT)


def _may_have_led_to(rows: Iterable[Transition], row: Row) -> bool:
    """Whether the newest claim on a row may have ended by an event with these rows of the table."""
    reached = state_of(row.status, row.kind) in {each.target for each in rows}
    if not any(each.also.has(Also.COUNT_INTERRUPTION) for each in rows):
        return reached
    return reached and row.interruptions > 0 and (row.status != HOLD or row.former in (RESUBMIT, ""))


def _count(row: Row, also: Also) -> Row:
    """A row with the counts after an event."""
    attempt = max(row.attempt + also.has(Also.COUNT_ATTEMPT) - also.has(Also.RESTORE_ATTEMPT), 0)
    if also.has(Also.CLEAR_COUNTS):
        return replace(row, attempt=attempt, failures=0, crashes=0, interruptions=0)
    return replace(
        row,
        attempt=attempt,
        failures=row.failures + also.has(Also.COUNT_FAILURE),
        crashes=row.crashes + also.has(Also.COUNT_CRASH),
        interruptions=row.interruptions + also.has(Also.COUNT_INTERRUPTION),
    )


def _beside(row: Transition) -> str:
    """The status of the job's input rows, when its output rows are decided by this row of the table."""
    if row.also.has(Also.CLEAR_INPUTS):
        return ABSENT
    return DONE if row.target == READY else ERROR


def _blocking_word(row: Row | None) -> str:
    """The HOLD, PENDING or unknown status that comes back when the claim is interrupted; otherwise empty."""
    if row is not None and row.status == RUNNING:  # Taken from another forced claim.
        return row.former
    return "" if row is None or row.status in (READY, DONE, ERROR, RESUBMIT) else row.status
