"""Records of requests with an idempotency key, by which any replica recognises a repeat."""

from __future__ import annotations

from headgate.calls.idempotency import MOST_KEPT, Kept, Keyed
from headgate.core.errors import Unavailable
from headgate.stores.ports.repeats import RepeatStore
from headgate.telemetry import event


class RepeatRecords:
    """The records of one store. A store writes a record in the transaction of the request's effect."""

    def __init__(self, store: RepeatStore) -> None:
        self._store = store

    def find(self, record_id: str) -> Kept | None:
        """Return the record of a request."""
        return self._store.find(record_id)

    def keep_answer(self, keyed: Keyed, status: int, answer: str) -> None:
        """Add the answer to a request's record, unless it is too long. While the store is unavailable nothing is kept:
        a repeat then builds its answer again.
        """
        if len(answer) > MOST_KEPT:
            return
        try:
            self._store.answered(keyed, status, answer)
        except Unavailable as error:
            event("http.answer_not_kept", why=str(error))

    def drop(self, record_id: str) -> None:
        """Remove the record of a request whose effect was undone."""
        self._store.drop(record_id)

    def clean(self, limit: int = 1000) -> int:
        """Remove up to `limit` old records. Returns how many were removed."""
        return self._store.clean(limit)
