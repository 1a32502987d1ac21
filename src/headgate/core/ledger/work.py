"""Units of work for chunks: a snapshot and a command in, changes out. Stores do not decide anything.

ClaimRefused, ClaimLost, NotOwner, UnknownName and TransitionRefused are raised before anything changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from headgate.core.errors import ClaimLost, ClaimRefused, UnknownName
from headgate.core.ledger.claims import may_claim
from headgate.core.ledger.draft import ChunkDraft
from headgate.core.ledger.model import EXTERNAL, HOLD, RESUBMIT, Change, Kind, Row
from headgate.core.ledger.parts import Listed, TakenPart, check_listed
from headgate.core.ledger.rules import ABSENT, ChunkFacts, state_of, word_of
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot, row_change, worst_row
from headgate.core.ledger.sources import came_late, changed
from headgate.core.tables.machine import Also

# ---------------------------------------------------------------- claims


def claim(snapshot: ChunkSnapshot, worker: str, lease: float) -> ChunkOutcome[None]:
    """Claim that chunk; ClaimRefused with the verdict when the rules say no. A dead claim on it is reaped first."""
    draft = ChunkDraft(snapshot)
    draft.reap(worker)
    verdict = may_claim(draft.chunk)
    if not verdict.granted:
        raise ClaimRefused(snapshot.job.name, snapshot.dataid, verdict.sentence(), verdict)
    draft.start("claim", worker, lease)
    return draft.outcome(None)


def claim_next(snapshot: ChunkSnapshot, worker: str, lease: float) -> ChunkOutcome[bool]:
    """Claim it if possible; otherwise correct its position in the list of find_next. Returns which."""
    draft = ChunkDraft(snapshot)
    granted = may_claim(snapshot).granted
    if granted:
        draft.start("claim", worker, lease)
    return draft.outcome(granted, check=True)


def force(snapshot: ChunkSnapshot, worker: str, lease: float, reason: str, *, steal: bool) -> ChunkOutcome[None]:
    """Claim it regardless of the claim table; ClaimRefused while a worker is on it (unless `steal`) or it is locked."""
    draft = ChunkDraft(snapshot)
    draft.refuse_alive("force", steal=steal)
    draft.refuse_locked(steal=steal)
    draft.start("force", worker, lease, reason)
    return draft.outcome(None)


# ---------------------------------------------------------------- reports


def succeed(
    snapshot: ChunkSnapshot, token: int, who: str, listed: Listed | None = None, taken: Sequence[TakenPart] = (),
    *, known: bool = False,
) -> ChunkOutcome[None]:  # fmt: skip
    """The worker has succeeded. What it read by mappings is compared with the current versions.

    `listed`: the fan-out that the worker lists, `taken`: the listed ids that belong to others, `known`: whether this
    success was recorded already, and late inputs caused a redo.
    """
    draft = ChunkDraft(snapshot)
    if known:
        return draft.outcome(None)
    base = worst_row(snapshot.owned())
    if draft.may_report("success", token) and base:
        draft.list_parts(check_listed(snapshot.job, snapshot.dataid, listed, taken), token)
        draft.end("success", base, who)
        draft.miss(tuple(changed(snapshot.sources.values(), snapshot.reads)), who)
    return draft.outcome(None)


def fail(snapshot: ChunkSnapshot, token: int, message: str, who: str) -> ChunkOutcome[None]:
    """The worker has failed."""
    return _report(snapshot, "fail", token, who, message)


def interrupt(
    snapshot: ChunkSnapshot, token: int, message: str, who: str, *, past: int | None = None, known: bool = False
) -> ChunkOutcome[None]:
    """The worker was asked to stop. A chunk that is interrupted too often is held, so that it does not block all
    others.

    A job without outputs loses its rows with each interruption, so the missing facts come from the history: `past`: how
    often it was interrupted before; `known`: whether this token was reported already.
    """
    if known and snapshot.speaker is None:
        return ChunkDraft(snapshot).outcome(None)
    base = worst_row(snapshot.owned())
    count = base.interruptions if base and past is None else past or 0
    most = snapshot.job.max_interruptions
    if 0 < most <= count + 1:
        message = f"{message}; held after {count + 1} interruptions (max_interruptions is {most})"
    return _report(snapshot, "interrupt", token, who, message, past)


def _report(
    snapshot: ChunkSnapshot, event: str, token: int, who: str, message: str = "", interruptions: int | None = None
) -> ChunkOutcome[None]:
    draft = ChunkDraft(snapshot)
    if draft.may_report(event, token) and (base := worst_row(snapshot.owned())):
        draft.end(
            event, base if interruptions is None else replace(base, interruptions=interruptions), who, message
        )  # fmt: skip
    return draft.outcome(None)


def refuse_heartbeat(snapshot: ChunkSnapshot, token: int) -> ClaimLost:
    """Why a lease was not renewed; NotOwner when another principal holds the claim."""
    ChunkDraft(snapshot).may_report("heartbeat", token)
    return ClaimLost(snapshot.job.name, snapshot.dataid, token, "its lease expired")


def reap(snapshot: ChunkSnapshot, who: str) -> ChunkOutcome[bool]:
    """End a claim whose lease has expired. Returns whether there was one."""
    draft = ChunkDraft(snapshot)
    return draft.outcome(draft.reap(who))


def arrive(snapshot: ChunkSnapshot, arrived: Collection[tuple[str, str]], who: str) -> ChunkOutcome[None]:
    """Upstream data ids, each with its dataset, have become READY, so chunks made without them are late."""
    draft = ChunkDraft(snapshot)
    late = changed(snapshot.sources.values(), snapshot.reads)
    new = [(source, each) for source, each in late if each.version and (each.dataset, each.dataid) in arrived]
    draft.miss(new, who)
    return draft.outcome(None)


# ---------------------------------------------------------------- operators


def resubmit(
    snapshot: ChunkSnapshot, reason: str, who: str, *, named: bool = True, steal: bool = False
) -> ChunkOutcome[None]:
    """Redo it before all others. `named`: it was requested directly, and not only as part of the downstream chunks."""
    rows = snapshot.owned()
    if named and snapshot.speaker is None:
        raise _unknown(snapshot, "There is nothing to resubmit; list chunks with: headgate data list")
    if not rows or (snapshot.again and all(row.status == RESUBMIT and row.message == reason for row in rows)):
        return ChunkDraft(snapshot).outcome(None)  # The first answer was lost, so it is not recorded again.
    return _start_over(snapshot, "resubmit", reason, who, named=named, steal=steal)


def forget(snapshot: ChunkSnapshot, reason: str, who: str, *, steal: bool = False) -> ChunkOutcome[None]:
    """Remove the job's rows, as if it had never run."""
    if not snapshot.owned() and not snapshot.parts:
        raise _unknown(snapshot, "There is no row to forget; list them with: headgate data list")
    return _start_over(snapshot, "forget", reason, who, steal=steal)


def _start_over(
    snapshot: ChunkSnapshot, event: str, reason: str, who: str, *, named: bool = True, steal: bool
) -> ChunkOutcome[None]:
    draft = ChunkDraft(snapshot)
    draft.refuse_alive(event, steal=steal)
    # A chunk without other outputs that is to be redone has no rows except its parts.
    spoken = (snapshot.speaker, worst_row(snapshot.owned()), *(part.row for part in snapshot.parts))
    row = draft.find_row(event, next(filter(None, spoken), None), named=named)
    for own in snapshot.counted():
        if own is not None:
            draft.redo(own, draft.find_row(event, own, named=named), reason)
    draft.leave_inputs(row)
    draft.turn_parts(row.target, _newest_token(snapshot), reason)
    draft.record(row, who, _newest_token(snapshot), snapshot.status, draft.chunk.status, reason)
    return draft.outcome(None)


def hold(snapshot: ChunkSnapshot, reason: str, who: str) -> ChunkOutcome[tuple[Change, ...]]:
    """No job may make or read it. A dead claim on it is reaped first."""
    if snapshot.part_of:
        raise _unknown(snapshot)
    draft, job = ChunkDraft(snapshot), snapshot.job
    draft.refuse_alive("hold", steal=False)
    draft.reap(who)
    chunk = draft.chunk
    rows = [row for row in chunk.counted() if row is None or row.status != HOLD]
    speaker = worst_row([row for row in rows if row]) if rows else chunk.speaker
    row = draft.find_row("hold", speaker)
    token, before = _newest_token(chunk), chunk.status
    blank = worst_row(chunk.owned()) or Row("", chunk.dataid, job.name, job.counted, ABSENT)
    changes = []
    for name in job.outputs or job.inputs:
        old = chunk.own(job.counted, name)
        if old is None or old.status != HOLD:
            base = old or replace(blank, dataset=name, kind=job.counted)
            held = replace(
                base, status=row.target, former="" if old is None else old.status, retry_in=None, message=reason
            )  # fmt: skip
            draft.put(job.counted, name, held)
        changes.append(row_change(job.name, chunk.dataid, old, draft.chunk.own(job.counted, name)))
    draft.turn_parts(row.target, token, reason)
    draft.record(row, who, token, before, draft.chunk.status, reason)
    return draft.outcome(tuple(changes), check=True)


def unhold(snapshot: ChunkSnapshot, reason: str, who: str) -> ChunkOutcome[None]:
    """Restore what it was before it was held; TransitionRefused when it is not held."""
    if snapshot.part_of:
        raise _unknown(snapshot)
    draft = ChunkDraft(snapshot)
    rows = [row for row in snapshot.counted() if row is not None and row.status == HOLD]
    row = draft.find_row("unhold", rows[0] if rows else snapshot.speaker)
    for held in rows:
        back = draft.find_row("unhold", held)
        same = back.target == state_of(held.former, held.kind)
        after = replace(held, status=held.former if same else back.target, former="")
        draft.put(held.kind, held.dataset, None if back.target == ABSENT else after)
    # The parts of a chunk without a row have to be made again.
    word = RESUBMIT if row.target == ABSENT else word_of(row.target, Kind.OUTPUT, rows[0].former)
    draft.turn_parts(word, _newest_token(snapshot), reason)
    draft.record(row, who, _newest_token(snapshot), snapshot.status, draft.chunk.status, reason)
    # Inputs that arrived while it was held found no READY chunk to be late for.
    draft.miss(tuple(came_late(snapshot.sources.values(), snapshot.reads)), who)
    return draft.outcome(None)


def set_status(snapshot: ChunkSnapshot, wanted: Row, reason: str, who: str) -> ChunkOutcome[Change]:
    """Set any status on one row, whatever state the chunk is in."""
    draft = ChunkDraft(snapshot)
    row = draft.rules.row(ABSENT, "set_status", ChunkFacts(snapshot.job, word=wanted.status))
    old = snapshot.own(wanted.kind, wanted.dataset)
    base = old or wanted
    new = replace(
        base, status=wanted.status, former="", lease=None, expires_in=None, retry_in=None, message=reason,
        worker=who if row.also.has(Also.NEW_TOKEN) else "", token=draft.token_after(row, base.token),
    )  # fmt: skip
    draft.put(wanted.kind, wanted.dataset, new)
    change = row_change(snapshot.job.name, snapshot.dataid, old, new)
    draft.record(row, who, _newest_token(snapshot), change.before, change.after, reason)
    return draft.outcome(change)


def publish(snapshot: ChunkSnapshot, who: str) -> ChunkOutcome[bool]:
    """Data made elsewhere becomes READY. Returns whether it was not READY before; ClaimRefused when a job makes it."""
    (dataset,) = snapshot.job.outputs
    maker = next((row.job for row in snapshot.made(dataset) if row.job != EXTERNAL), None)
    if maker is not None:
        raise ClaimRefused(
            EXTERNAL, snapshot.dataid,
            f"{dataset}/{snapshot.dataid} is produced by job {maker}; it cannot be published as well",
        )  # fmt: skip
    draft, old = ChunkDraft(snapshot), snapshot.own(Kind.OUTPUT, dataset)
    row = draft.find_row("publish", old)
    new = old is None or row.target != old.status
    if new:
        draft.redo(old or Row(dataset, snapshot.dataid, EXTERNAL, Kind.OUTPUT, ABSENT), row, "")
        draft.record(row, who, _newest_token(snapshot), snapshot.status, draft.chunk.status, "")
    return draft.outcome(new)


# ---------------------------------------------------------------- within


def _unknown(snapshot: ChunkSnapshot, hint: str = "") -> UnknownName:
    job = snapshot.job.name
    if snapshot.part_of:
        dataset, source = snapshot.part_of
        hint = f"{dataset}/{snapshot.dataid} was made from {source}, and has the status of {job} {source}: name that"
    return UnknownName("chunk", f"{job}/{snapshot.dataid}", hint)


def _newest_token(chunk: ChunkSnapshot) -> int:
    # A negative number is a placeholder for a token greater than all others.
    return max((row.token for row in chunk.owned()), key=lambda token: (token < 0, abs(token)), default=0)
