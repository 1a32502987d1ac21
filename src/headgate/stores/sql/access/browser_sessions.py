"""Browser sessions and sign-in codes in SQL, by their digests. This code signs nobody in."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headgate.stores.sql.database.moments import to_micro
from headgate.stores.sql.database.sql_text import Statement

if TYPE_CHECKING:
    from headgate.stores.sql.database.engine import Database
    from headgate.stores.sql.database.transaction import Transaction

ADD_SESSION = Statement(
    "A new session or code.",
    """insert into hg_session (id, kind, token_id, created_at, expires_at)
       values (:id, :kind, :token_id, {now}, {now} + :seconds)""",
)
READ_SESSION = Statement(
    "The token that it belongs to, if it is valid.",
    "select token_id from hg_session where id = :id and kind = :kind and expires_at > {now}",
)
READ_ALIVE = Statement(
    "The valid ones among these.",
    "select id from hg_session where id in (:ids*) and kind = 'session' and expires_at > {now}",
)
READ_OF_TOKEN = Statement(
    "Those of a token, newest first.",
    "select id from hg_session where token_id = :token_id and kind = :kind order by created_at desc, id",
)
REDEEM_CODE = Statement(
    "Use up a code.",
    "delete from hg_session where id = :id and kind = 'code' and token_id = :token_id and expires_at > {now}",
)
END_SESSION = Statement("Sign a browser out.", "delete from hg_session where id = :id and kind = 'session'")
DROP_SESSIONS = Statement("Remove these.", "delete from hg_session where id in (:ids*)")
DROP_EXPIRED = Statement("Remove expired ones.", "delete from hg_session where expires_at <= {now}")
END_OF_TOKEN = Statement("Remove those of a token.", "delete from hg_session where token_id = :token_id")


class SqlSessions:
    """Sessions and codes in one SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, kind: str, digest: str, token_id: str, seconds: float, most: int) -> None:
        self._database.write(lambda tx: _add(tx, kind, digest, token_id, seconds, most))

    def token_of(self, kind: str, digest: str) -> str | None:
        found = self._database.single(READ_SESSION, id=digest, kind=kind)
        return str(found[0][0]) if found else None

    def redeem(self, code: str, session: str, token_id: str, seconds: float, most: int) -> bool:
        def work(tx: Transaction) -> bool:
            if not tx.count(REDEEM_CODE, id=code, token_id=token_id):
                return False
            _add(tx, "session", session, token_id, seconds, most)
            return True

        return self._database.write(work)

    def end(self, digest: str) -> None:
        self._database.write(lambda tx: tx.run(END_SESSION, id=digest))

    def alive(self, digests: Collection[str]) -> set[str]:
        return {str(row[0]) for row in self._database.single(READ_ALIVE, ids=list(digests))}


def _add(tx: Transaction, kind: str, digest: str, token_id: str, seconds: float, most: int) -> None:
    tx.run(DROP_EXPIRED)
    older = [str(row[0]) for row in tx.all(READ_OF_TOKEN, token_id=token_id, kind=kind)][most - 1 :]
    if older:
        tx.run(DROP_SESSIONS, ids=older)
    tx.run(ADD_SESSION, id=digest, kind=kind, token_id=token_id, seconds=to_micro(seconds))
