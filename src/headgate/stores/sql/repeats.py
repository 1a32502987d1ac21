"""Idempotency keys in SQL: the record of a request is a row that the transaction of its effect writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.calls.idempotency import KEPT_SECONDS, Kept, Keyed
from headgate.stores.sql.database.moments import to_micro
from headgate.stores.sql.database.request_keys import ADD_REPEAT, columns_of
from headgate.stores.sql.database.sql_text import Statement

if TYPE_CHECKING:
    from headgate.stores.sql.database.engine import Database
    from headgate.stores.sql.database.transaction import Transaction

READ_REPEAT = Statement(
    "The record of a request.", "select digest, nonce, result, status, answer from hg_repeat where id = :id"
)
ANSWER_REPEAT = Statement(
    "The answer to a request.",
    "update hg_repeat set status = :status, answer = :answer where id = :id and nonce = :nonce",
)
DROP_REPEAT = Statement(
    "Remove the record of a request whose effect was undone.", "delete from hg_repeat where id = :id"
)
READ_OLD_REPEATS = Statement(
    "Expired records.", "select id from hg_repeat where at < {wall} - :age order by at limit :limit"
)
DROP_OLD_REPEATS = Statement("The same, removed.", "delete from hg_repeat where id in (:ids*) and at < {wall} - :age")


class SqlRepeats:
    """The records of requests in one SQL database."""

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
                tx.run(ADD_REPEAT, **columns_of(keyed), result="")
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
