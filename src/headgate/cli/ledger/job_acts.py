"""Operations on the chunks of a job: those that are named, or all that have a status or match a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.ledger.dataids import EXACT, MANY, Selection, act_on_each, complain_refused, confirm, is_exact
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import DONE, NOTHING_TO_DO, TRY_LATER
from headgate.cli.terminal.options import ANY_REASON, DRY_RUN, JOB_NAME, REASON, common, together
from headgate.cli.terminal.output import table
from headgate.cli.terminal.progress import working
from headgate.cli.terminal.values import STATUS
from headgate.core.ledger.model import ERROR, FORGET_EVENT, HOLD_EVENT, RESUBMIT_EVENT, UNHOLD_EVENT
from headgate.core.ledger.parsing import STATUS_WORDS
from headgate.core.ledger.ranges import expand
from headgate.core.ledger.selection import MOST_LISTED, is_pattern
from headgate.core.values.names import check_name, check_note
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain
from headgate.core.values.words import nearest

if TYPE_CHECKING:
    from headgate.core.ledger.model import Change
    from headgate.core.ledger.selection import BulkResult
    from headgate.service.ledger.use_cases import Ledger

F = TypeVar("F", bound=Callable[..., Any])
STEAL = click.option("--steal", is_flag=True, help="Take the chunk from a worker that is still alive.")
#: Number of changes that a preview lists.
SHOWN = 10


@dataclass(frozen=True)
class ChosenChunks:
    """The arguments that choose chunks."""

    words: Sequence[str]
    statuses: Sequence[str]
    exact: bool
    yes: bool
    dry_run: bool

    @property
    def named(self) -> bool:
        """Whether each chunk is named individually or in a range."""
        return not self.statuses and (self.exact or not any(map(is_pattern, self.words)))

    def by_name(self) -> Selection:
        """The data ids. Large ranges are confirmed."""
        selection = Selection([expand(word, exact=self.exact) for word in self.words])
        if not self.dry_run:
            confirm(selection, yes=self.yes)
        return selection

    @property
    def asked(self) -> dict[str, Any]:
        """The same in the form for the ledger."""
        return {"dataids": list(self.words), "status": list(self.statuses), "exact": self.exact}

    def sentence(self) -> str:
        """For people: `that are ERROR and match 2026-10-*`."""
        parts = [f"are {' or '.join(self.statuses)}"] if self.statuses else []
        parts += [f"match {' or '.join(self.words)}"] if self.words else []
        return f"that {' and '.join(parts)}"


def chosen_chunks(function: F) -> F:
    """JOB, DATAID..., --failed and --status. The command receives ChosenChunks."""

    @wraps(function)
    def call(*args: Any, words: Sequence[str], failed: bool, status: Sequence[str], **more: Any) -> Any:
        context = click.get_current_context()
        exact, statuses = is_exact(context), dict.fromkeys([*([ERROR] if failed else []), *status])
        if not words and not statuses:
            raise click.UsageError("Name at least one DATAID, range or pattern, or add --failed or --status WORD.")
        for word in words:
            check_name("dataid", word)
            if exact or not is_pattern(word):
                expand(word, exact=exact)
        chosen = ChosenChunks(words, list(statuses), exact, more.pop("yes"), more["dry_run"])
        return function(*args, chosen=chosen, **more)

    added = together(
        JOB_NAME,
        click.argument("words", metavar="[DATAID]...", nargs=-1),
        click.option("--failed", is_flag=True, help=f"Only chunks that failed: short for --status {ERROR}."),
        click.option("--status", type=STATUS, multiple=True, help="Only chunks with this status (repeatable)."),
        EXACT,
        DRY_RUN,
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    )
    return added(call)  # type: ignore[return-value] # the same kind


@click.command("resubmit", short_help="Run chunks again, before all others.")
@chosen_chunks
@REASON
@click.option("--downstream", is_flag=True, help="Include all chunks that were made from it.")
@STEAL
@common
def resubmit(console: Console, /, job_name: str, chosen: ChosenChunks, **how: Any) -> int:
    """Run chunks again, before all others. Their failures are counted from zero.

    A DATAID can be a range of days, months or numbers, or a pattern such as '2026-10-*'. Named chunks are changed
    together or not at all. With a pattern, --failed or --status, all chunks that match are changed; those that a
    worker has claimed are listed, and not changed.

    \b
    Examples:
      headgate job resubmit clean --failed --reason "more disk"
      headgate job resubmit clean '2026-10-*' --downstream --dry-run --reason why
      headgate job resubmit clean 1..15 --status HOLD --reason "repaired"
    """
    if not chosen.named:
        return change_selected(console, job_name, RESUBMIT_EVENT, chosen, **how)
    dataids = list(chosen.by_name())
    with console.gate() as gate, working(console, "finding all chunks that were made from it"):
        changes = gate.ledger.resubmit(job_name, dataids, **how)
    answer_changes(console, changes, count=len(dataids) > 1, dry_run=chosen.dry_run)
    return DONE


@click.command("hold")
@chosen_chunks
@REASON
@common
def hold(console: Console, /, job_name: str, chosen: ChosenChunks, **how: Any) -> int:
    """Hold chunks: no job can read or make them until `job unhold`.

    A DATAID can be a range of days, months or numbers, or a pattern such as '2026-10-*'. A chunk that does not exist
    yet can be held too, by its data id or in a range.
    """
    return _change(console, job_name, HOLD_EVENT, chosen, **how)


@click.command("unhold")
@chosen_chunks
@ANY_REASON
@common
def unhold(console: Console, /, job_name: str, chosen: ChosenChunks, **how: Any) -> int:
    """Release held chunks: their former status comes back.

    A pattern such as '2026-10-*' releases those that are held.
    """
    return _change(console, job_name, UNHOLD_EVENT, chosen, **how)


@click.command("forget")
@chosen_chunks
@REASON
@STEAL
@common
def forget(console: Console, /, job_name: str, chosen: ChosenChunks, **how: Any) -> int:
    """Remove the records of JOB for chunks, as if they had never run. Inputs are not touched."""
    return _change(console, job_name, FORGET_EVENT, chosen, **how)


def _change(
    console: Console, job_name: str, act: str, chosen: ChosenChunks, *, dry_run: bool, reason: str, **how: Any
) -> int:
    """Each named chunk in a transaction of its own, or all that match."""
    if not chosen.named or dry_run:
        return change_selected(console, job_name, act, chosen, dry_run=dry_run, reason=reason, **how)
    dataids = chosen.by_name()

    def change(ledger: Ledger, dataid: str) -> Sequence[Change]:
        method: Callable[..., Sequence[Change]] = getattr(ledger, act)
        return method(job_name, dataid, reason=reason, **how)

    changes, code = console.ask(lambda gate: act_on_each(console, dataids, partial(change, gate.ledger)))
    answer_changes(console, changes, count=len(dataids) > 1)
    return code


# ---------------------------------------------------------------- all matching chunks


def change_selected(
    console: Console, job_name: str, act: str, chosen: ChosenChunks, *, dry_run: bool, reason: str, **how: Any
) -> int:
    """Show what would change, ask, and do it. Returns the exit code."""
    why = check_note("reason", reason) or "no reason was given"
    with console.gate() as gate:

        def ask(*, dry_run: bool) -> BulkResult:
            with working(console, f"{'finding' if dry_run else 'changing'} chunks {chosen.sentence()}"):
                return gate.ledger.change_selected(
                    job_name, act, reason=why, dry_run=dry_run, **chosen.asked, **how
                )  # fmt: skip

        if dry_run:
            found = ask(dry_run=True)
        else:
            if not chosen.yes:
                preview = ask(dry_run=True)
                if preview.total and not _agreed(console, preview, job_name):
                    return DONE
            found = ask(dry_run=False)
    console.answer(plain(found), lambda: bulk_text(found, job_name, chosen, dry_run=dry_run))
    if found.refused:
        complain_refused(
            console, [(each.dataid, each.why) for each in found.refusals], found.count, refused=found.refused
        )  # fmt: skip
        return TRY_LATER
    return DONE if found.count else NOTHING_TO_DO


def _agreed(console: Console, preview: BulkResult, job_name: str) -> bool:
    """Ask on a terminal. Without one, `--yes` is needed for many chunks."""
    if not console.can_ask and preview.total <= MANY:
        return True
    otherwise = f"{preview.act} would change {preview.total:,} chunks: add --yes if you mean it"
    question = f"{preview.act} {plural(preview.total, 'chunk')}?"
    return console.agrees(question, _preview_text(preview, job_name), otherwise)


def _preview_text(found: BulkResult, job_name: str) -> str:
    lines = [f"{plural(found.count, 'chunk')} of {job_name} selected: {_listed(found.selected)}"]
    if set(found.changed) - {job_name}:
        lines.append(f"would change, with everything downstream: {_listed(found.changed)}")
    if found.refused:
        lines.append(f"would be left alone: {found.refused:,}, for example {found.refusals[0].why}")
    return "\n".join(lines)


def bulk_text(found: BulkResult, job_name: str, chosen: ChosenChunks, *, dry_run: bool) -> str:
    """The result as text: counts, and the first changes."""
    if not found.count:
        unknown = [word for word in chosen.statuses if word not in STATUS_WORDS.values()]
        near = next((near for word in unknown if (near := nearest(word, STATUS_WORDS))), "")
        hint = f"; did you mean {near}?" if near else ""
        return f"no chunks of {job_name} {chosen.sentence()}{hint}"
    word = "would change" if dry_run else "changed"
    lines = [f"{word}  {plural(found.total, 'chunk')}: {_listed(found.changed) or 'none'}"]
    lines[0] += f" (selected: {_listed(found.selected)})"
    if found.changes:
        lines.append(changes_table(found.changes[:SHOWN]))
    if len(found.changes) > SHOWN or len(found.changes) == MOST_LISTED:
        lines.append("…")
    return "\n".join(lines)


def _listed(counts: Any) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def answer_changes(console: Console, changes: Sequence[Change], *, count: bool = False, dry_run: bool = False) -> None:
    """Print changes of named chunks. `count`: say first how many chunks there are, by job."""

    def text() -> str:
        if not changes:
            return "nothing changed"
        chunks = Counter(job for job, _ in dict.fromkeys((each.job, each.dataid) for each in changes))
        word = "would change" if dry_run else "changed"
        counted = [f"{word}  {plural(chunks.total(), 'chunk')}: {_listed(dict(chunks.most_common()))}"] if count else []
        return "\n".join([*counted, changes_table(changes)])

    console.answer_list(plain(changes), text)


def changes_table(changes: Sequence[Change]) -> str:
    """Changes in columns."""
    rows = [(each.job, each.dataset, each.dataid, each.kind, each.before, each.after) for each in changes]
    return table(("JOB", "DATASET", "DATAID", "KIND", "BEFORE", "AFTER"), rows)
