"""Getting locks: at once or by waiting in the queue, with real locks of the storage put under them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headgate.core.errors import HeadgateError, LockRefused, StorageGuardFailed, StoreUnavailable
from headgate.core.locks import Blocker, Lock, Request
from headgate.service.clock import steady
from headgate.service.guards import GuardBusy, GuardKeeper
from headgate.service.undoing import keep, undo_later
from headgate.stores.base import Grant, LockStore, Ticket
from headgate.stores.deadlines import within
from headgate.stores.options import DEFAULT_OPTIONS
from headgate.telemetry import event

#: A waiter tells the store at least this often that it lives.
SIGN_OF_LIFE_SECONDS = 3.0
#: The number of a place in a queue that may have been taken, when its number is not known.
NO_NUMBER = 0
#: A pause before a store that does not answer, or a busy guard, is asked again.
PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Obtained:
    """A grant, and when the request that brought it was sent (monotonic): its lease runs at most from then."""

    grant: Grant
    sent: float


class Obtaining:
    """One store, and the guards of this process."""

    def __init__(
        self, store: LockStore, guards: GuardKeeper, answer_within: float = DEFAULT_OPTIONS.answer_within
    ) -> None:
        self._store = store
        self._guards = guards
        self._answer_within = answer_within

    def obtain(self, request: Request, deadline: float) -> Obtained:
        """All that is wanted, by the deadline (steady); LockRefused otherwise, and nothing is taken.

        StoreUnavailable at the latest `answer_within` seconds after the deadline. If its outcome is unknown, what was
        taken is given back in the background, unless the caller asks again with the same request id.
        """
        keep(request.id)
        try:
            with within(max(deadline - steady(), 0.0) + self._answer_within):
                return self._obtain(request, deadline)
        except StoreUnavailable as error:
            error.request_id = request.id
            if error.outcome != "none" and request.fresh:
                self._undo_later(Ticket(NO_NUMBER, request))
            raise

    def _obtain(self, request: Request, deadline: float) -> Obtained:
        while True:
            obtained = self._obtain_in_store(request, deadline)
            try:
                self.guard(request, obtained.grant)
            except LockRefused:
                if steady() + PAUSE_SECONDS > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                return obtained

    def guard(self, request: Request, grant: Grant) -> Grant:
        """The grant with real locks under it; LockRefused, and it is given back, when one of them is busy."""
        busy = self._guard(grant)
        if not busy:
            _tell(grant)
            return grant
        failed = self._give_back(grant)
        raise failed[0] if failed else LockRefused(request, busy)

    def _obtain_in_store(self, request: Request, deadline: float) -> Obtained:
        sent = steady()
        if deadline <= sent:
            return Obtained(self._store.acquire(request), sent)
        result = self._queue_up(request, deadline)
        return self._wait_in_queue(result, deadline) if isinstance(result, Ticket) else result

    def _queue_up(self, request: Request, deadline: float) -> Obtained | Ticket:
        """Join the queue; again while there is time to wait, when the store did nothing because it was busy or away."""
        while True:
            sent = steady()
            try:
                result = self._store.queue_up(request)
            except StoreUnavailable as error:
                if error.outcome != "none" or steady() + PAUSE_SECONDS > deadline:
                    raise
                event("lock.wait_interrupted", client=request.client, why=str(error))
                time.sleep(PAUSE_SECONDS)
            else:
                return result if isinstance(result, Ticket) else Obtained(result, sent)

    def _wait_in_queue(self, ticket: Ticket, deadline: float) -> Obtained:
        event("lock.waiting", client=ticket.request.client, ticket=ticket.number)
        try:
            while (left := deadline - steady()) > 0:
                obtained = self._wait_a_while(ticket, min(left, SIGN_OF_LIFE_SECONDS))
                if obtained:
                    return obtained
            sent = steady()
            return Obtained(self._store.give_up(ticket), sent)
        except LockRefused:
            raise
        except BaseException:
            try:
                self._store.withdraw(ticket)
            except StoreUnavailable:
                self._undo_later(ticket)
            raise

    def _undo_later(self, ticket: Ticket) -> None:
        """A place lapses by itself, and so does a leased lock; a persistent one would stay."""
        undo_later(ticket.request.id, lambda: self._store.withdraw(ticket))

    def _wait_a_while(self, ticket: Ticket, seconds: float) -> Obtained | None:
        try:
            self._store.await_turn(ticket, seconds)
            sent = steady()
            grant = self._store.take_turn(ticket)
        except StoreUnavailable as error:  # It may be back before the time to wait is over.
            event("lock.wait_interrupted", client=ticket.request.client, why=str(error))
            time.sleep(min(PAUSE_SECONDS, seconds))
            return None
        return Obtained(grant, sent) if grant else None

    def _guard(self, grant: Grant) -> list[Blocker]:
        """Put real locks under the granted ones. Gives what was busy; what breaks is given back and raised."""
        busy: list[Blocker] = []
        try:
            for lock in grant:
                if self._guards.covers(lock.resource):
                    busy += self._guard_one(lock)
        except BaseException as error:
            for failed in self._give_back(grant):
                error.add_note(str(failed))
            raise
        return busy

    def _guard_one(self, lock: Lock) -> list[Blocker]:
        try:
            self._guards.take(lock)
        except GuardBusy as error:
            return [Blocker("guard", lock.resource, "", lock.mode, note=str(error))]
        return []

    def _give_back(self, grant: Grant) -> list[HeadgateError]:
        """Everything, whatever fails on the way. Gives what failed."""
        failed: list[HeadgateError] = []
        for lock in grant:
            try:
                self._guards.leave(lock.id, lock.request_id)
            except StorageGuardFailed as error:
                failed.append(error)
            try:
                self._store.release(lock.id, lock.token)
            except HeadgateError as error:
                failed.append(error)
        return failed


def _tell(grant: Grant) -> None:
    for lock in grant:
        event(
            "lock.granted",
            lock=lock.id, resource=lock.resource, client=lock.client, mode=lock.mode, token=lock.token,
        )  # fmt: skip
