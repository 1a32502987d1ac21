"""Operations on many chunks at once: those with a status, in a range, or whose data ids match a pattern."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.ledger.selection import BulkRequest, BulkResult, BulkTotal, select
from headgate.core.values.names import check_name, check_reason
from headgate.service.access.identity import actor
from headgate.stores.ports.ledger import LedgerStore
from headgate.telemetry import event


class SelectedChunks:
    """The part of the ledger that changes selected chunks."""

    _store: LedgerStore

    def change_selected(  # noqa: PLR0913 - each is a part of the selection, by its name
        self, job: str, act: str, *, reason: str, dataids: Sequence[str] = (), status: Sequence[str] = (),
        exact: bool = False, downstream: bool = False, steal: bool = False, dry_run: bool = False,
        by: str | None = None,
    ) -> BulkResult:  # fmt: skip
        """Resubmit, hold, unhold or forget all chunks of a job that have a row and match. Returns what changed.

        The selection is worked on part by part, each in one transaction. After an interruption, repeat the call: with
        `status`, chunks that were changed already no longer match. A chunk that a worker has claimed is not changed: it
        is among the `refusals`. With `downstream` a chunk is refused if anything that was made from it is claimed.

        :param act: `resubmit`, `hold`, `unhold` or `forget`.
        :param dataids: Data ids, ranges (`2026-10-01..2026-10-31`, both ends included) and patterns (`2026-10-*`), any
            of which may match; none: all.
        :param status: Statuses, any of which may match; none: all. `unhold` takes those on hold.
        :param exact: Take data ids literally.
        :param downstream: For `resubmit`: include every chunk that was made from them.
        :param dry_run: Only return what would change.
        """
        found = BulkTotal(act)
        after: str | None = ""
        while after is not None:
            part = self.change_part(
                job, act, reason=reason, dataids=dataids, status=status, exact=exact, downstream=downstream,
                steal=steal, dry_run=dry_run, after=after, by=by,
            )  # fmt: skip
            found.add(part)
            after = part.next
        return found.result

    def change_part(  # noqa: PLR0913 - the same
        self, job: str, act: str, *, reason: str, dataids: Sequence[str] = (), status: Sequence[str] = (),
        exact: bool = False, downstream: bool = False, steal: bool = False, dry_run: bool = False, after: str = "",
        by: str | None = None,
    ) -> BulkResult:  # fmt: skip
        """Do the same for one part of the selection, in one transaction.

        :param act: As for `change_selected`, like the other arguments.
        :param dataids: Data ids, ranges and patterns.
        :param exact: Take data ids literally.
        :param downstream: For `resubmit`: include every chunk that was made from them.
        :param dry_run: Only return what would change.
        :param after: The `next` of the previous part (default: the first part).
        """
        selection = select(act, dataids, status, downstream=downstream, steal=steal, exact=exact)
        name, why = check_name("job", job), check_reason(reason)
        wish = BulkRequest(
            act, selection, why, actor(by), bool(downstream), bool(steal), bool(dry_run),
            check_name("after", after) if after else "",
        )  # fmt: skip
        found = self._store.change_selected(name, wish)
        if found.total and not dry_run:
            event("chunk.selected", act=act, job=job, count=found.total, reason=reason)
        return found
