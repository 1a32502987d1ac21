"""One item: the handler processes it, and its outcome becomes an event of the table."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headgate.core.errors import Invalid, Lost, Refused, Unavailable
from headgate.core.queue.model import (
    ESTIMATING,
    FAIL_EVENT,
    HOLD_EVENT,
    Batch,
    IngestJob,
    Item,
    forward_event,
    has_row,
    later_priority,
)
from headgate.core.tables.machine import Machine
from headgate.daemons.lanes import Lane
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import CanFinish, Done, Failed, Handler, Held, NotNow, Outcome
from headgate.service.queue.use_cases import Queue
from headgate.telemetry import event

#: Pause before a report is retried while the store is unavailable.
RETRY_SECONDS = 0.5
#: An unknown size blocks nothing.
NEVER_FAILS = ESTIMATING
#: A signal to all processes of a group reaches both the daemon and its command within this time.
HEARING_SECONDS = 1.0


class Reporter:
    """Runs a handler on items, and reports the outcomes to the queue."""

    def __init__(self, queue: Queue, handler: Handler, lane: Lane, stop: threading.Event | None = None) -> None:
        """`stop`: set when the daemon was asked to stop."""
        self._queue = queue
        self._handler = handler
        self._lane = lane
        self._stop = stop or threading.Event()

    def work(self, item: Item, hold: ItemHold) -> None:
        """Process a taken item, and report. Everything that happens to it is logged."""
        try:
            outcome = self._handled(item, hold)
            hold.check()
        except Lost as error:
            self._let_go(item, str(error))
            return
        if self._was_interrupted(outcome):
            outcome = NotNow(f"interrupted: its daemon was asked to stop ({outcome.message})")
        try:
            self._report_while_ours(item, outcome, hold)
        except Lost as error:
            event("consumer.report_refused", logging.WARNING, item=item.id, state=item.state, why=str(error))

    def _handled(self, item: Item, hold: ItemHold) -> Outcome:
        try:
            outcome: object = self._held(item) or self._handler(item, hold)
        except Lost:
            raise
        except Unavailable as error:
            return NotNow(f"a service that it needs is unavailable: {error}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a handler does, its item must go on
            why = f"{type(error).__name__}: {error}"
            event(
                "consumer.crash", logging.ERROR, item=item.id, state=item.state, why=why,
                traceback=traceback.format_exc(),
            )  # fmt: skip
            return Failed(f"the handler crashed: {why}")
        if isinstance(outcome, Done | Failed | Held | NotNow):
            return outcome
        return Failed(f"the handler returned {outcome!r}, which is not an outcome")

    def _was_interrupted(self, outcome: Outcome) -> bool:
        """Whether a step failed because the daemon was asked to stop. Work done by then counts."""
        if not isinstance(outcome, Failed):
            return False
        # The signal that ended the command may also be meant for us, and not have arrived yet.
        return self._stop.wait(HEARING_SECONDS) if outcome.by_signal else self._stop.is_set()

    def _held(self, item: Item) -> Outcome | None:
        """An item of a held collection is put on hold without being processed, if the table allows it."""
        if not has_row(self._table(item), item.state, HOLD_EVENT):
            return None
        hold = self._queue.hold_of(item.profile)
        return None if hold is None else Held(f"collection {hold.profile} is on hold, set by {hold.who}: {hold.reason}")

    def _let_go(self, item: Item, why: str) -> None:
        """Given up, or lost. It may still be ours: then others need not wait for the end of its lease."""
        event("consumer.lost", logging.WARNING, item=item.id, state=item.state, why=why)
        with suppress(Lost, Unavailable):
            self._queue.give_back(item, "its consumer had to release it before it finished")
            event("consumer.handed_back", item=item.id, state=item.state)

    def _report_while_ours(self, item: Item, outcome: Outcome, hold: ItemHold) -> None:
        """Retry the report while the store is unavailable and the item is ours: a repeat has no further effect."""
        while True:
            try:
                self._report(item, outcome)
            except Unavailable as error:
                if hold.lost is not None:
                    raise hold.lost from error
                event("consumer.store_away", logging.WARNING, item=item.id, why=str(error), again_in=RETRY_SECONDS)
                time.sleep(RETRY_SECONDS)
            else:
                return

    def _report(self, item: Item, outcome: Outcome) -> None:
        try:
            self._fire(item, outcome)
        except (Refused, Invalid) as error:
            # The handler requested an invalid change: this counts as its failure.
            event("consumer.outcome_refused", logging.WARNING, item=item.id, state=item.state, why=str(error))
            self._fire(item, Failed(f"the handler's outcome is not valid: {error}"))

    def _fire(self, item: Item, outcome: Outcome) -> None:
        outcome = self._possible(item, outcome)
        if isinstance(outcome, NotNow):
            pause = self._lane.put_off(item)
            self._queue.give_back(item, outcome.message)
            event("consumer.not_now", item=item.id, state=item.state, why=outcome.message, again_in=pause)
            return
        name, changes = self._event_of(item, outcome)
        moved = self._queue.fire(item, name, outcome.message, **changes)
        self._lane.moved(item)
        handler: object = self._handler
        if isinstance(handler, CanFinish):
            handler.finished(moved)

    def _possible(self, item: Item, outcome: Outcome) -> Outcome:
        """A failure in a state without a fail row: the job continues, or is deferred."""
        if not isinstance(outcome, Failed) or has_row(self._table(item), item.state, FAIL_EVENT):
            return outcome
        if isinstance(item, IngestJob) and item.state == NEVER_FAILS:
            why = f"its size is unknown: {outcome.message}"
            return Done(why, priority=later_priority(item.priority), space_needed=0)
        return NotNow(outcome.message)

    def _event_of(self, item: Item, outcome: Done | Failed | Held) -> tuple[str, Mapping[str, Any]]:
        if isinstance(outcome, Failed):
            return FAIL_EVENT, {}
        if isinstance(outcome, Held):
            return HOLD_EVENT, {}
        changes = {
            "priority": outcome.priority, "space_needed": outcome.space_needed, "identifiers": outcome.identifiers,
            "configuration": outcome.configuration, "report": outcome.report,
        }  # fmt: skip
        return forward_event(self._table(item), item.state), changes

    def _table(self, item: Item) -> Machine:
        batches, jobs = self._queue.tables()
        return batches if isinstance(item, Batch) else jobs
