"""Idempotency keys in SQL: the record of a request is a row that the transaction of its effect writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headgate.calls.idempotency import KEPT_SECONDS, Kept, Keyed, Repeated, effect, pending
from headgate.core.locks import Lock
from headgate.stores.sql.moments import to_micro
from headgate.stores.sql.statement import Statement

if TYPE_CHECKING:
    from headgate.stores.sql.engine import Database, Transaction

ADD_REPEAT = Statement(
    "A request has taken effect.",
    """{insert_once} hg_repeat (id, principal, digest, nonce, result, at)
       values (:id, :principal, :digest, :nonce, :result, {wall}) {or_leave}""",
)
READ_REPEAT = Statement(
    "The record of a request.", "select digest, nonce, result, status, answer from hg_repeat where id = :id"
)
ANSWER_REPEAT = Statement(
    "What a request was answered.",
    "update hg_repeat set status = :status, answer = :answer where id = :id and nonce = :nonce",
)
DROP_REPEAT = Statement("The effect of a request was undone.", "delete from hg_repeat where id = :id")
READ_OLD_REPEATS = Statement(
    "Records that are kept no longer.", "select id from hg_repeat where at < {wall} - :age order by at limit :limit"
)
DROP_OLD_REPEATS = Statement("The same, removed.", "delete from hg_repeat where id in (:ids*) and at < {wall} - :age")


def keep_key(tx: Transaction, result: Any) -> Keyed | None:
    """Write the record of the request that this transaction is the effect of, if there is one, and return the request.

    Raises Repeated when another attempt of the request was first: the transaction must not be committed.
    """
    keyed = pending()
    if keyed is None:
        return None
    kept = effect(keyed, _without_wakes(result))
    if kept is None:
        return None
    if tx.count(ADD_REPEAT, **_columns(keyed), result=kept) < 1:
        raise Repeated("another attempt of this request was first")
    return keyed


def _columns(keyed: Keyed) -> dict[str, object]:
    return {"id": keyed.id, "principal": keyed.principal, "digest": keyed.digest, "nonce": keyed.nonce}


@runtime_checkable
class WithWakes(Protocol):
    """What a command on locks came to, and which waiters to wake once it is committed."""

    result: Any
    wakes: Any


def _without_wakes(result: Any) -> Any:
    """The outcome alone, where a transaction also returns which waiters to wake."""
    if isinstance(result, WithWakes):
        return result.result
    is_pair = type(result) is tuple and len(result) == 2 and not isinstance(result[1], Lock)
    return result[0] if is_pair else result


class SqlRepeats:
    """The records of one SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, record_id: str) -> Kept | None:
        found = self._database.single(READ_REPEAT, id=record_id)
        if not found:
            return None
        digest, nonce, result, status, answer = found[0]
        return Kept(str(digest), str(nonce), str(result), None if status is None else int(status), str(answer or ""))

    def answered(self, keyed: Keyed, status: int, answer: str) -> None:
        def work(tx: Transaction) -> None:
            given = {"id": keyed.id, "nonce": keyed.nonce, "status": status, "answer": answer}
            if tx.count(ANSWER_REPEAT, **given) < 1:  # The effect was in another store, or there was none.
                tx.run(ADD_REPEAT, **_columns(keyed), result="")
                tx.run(ANSWER_REPEAT, **given)

        self._database.write(work)

    def drop(self, record_id: str) -> None:
        self._database.write(lambda tx: tx.run(DROP_REPEAT, id=record_id))

    def clean(self, limit: int = 1000) -> int:
        age = to_micro(KEPT_SECONDS)

        def work(tx: Transaction) -> int:
            ids = [str(row[0]) for row in tx.all(READ_OLD_REPEATS, age=age, limit=limit)]
            return tx.count(DROP_OLD_REPEATS, ids=ids, age=age) if ids else 0

        if not self._database.single(READ_OLD_REPEATS, age=age, limit=1):
            return 0
        return self._database.write(work)
