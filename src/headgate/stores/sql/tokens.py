"""API tokens in SQL: who may ask the service for what. Nothing here opens it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headgate.core.scopes import ApiToken
from headgate.stores.sql.engine import Database, Transaction
from headgate.stores.sql.moments import moment, to_micro, to_seconds
from headgate.stores.sql.sessions import END_OF_TOKEN
from headgate.stores.sql.statement import Row, Statement

_COLUMNS = "id, name, scopes, created_at, expires_at - {now}, last_used_at, revoked, digest, salt"
ADD_TOKEN = Statement(
    "A new token.",
    """insert into hg_api_token (id, name, scopes, created_at, expires_at, revoked, digest, salt)
       values (:id, :name, :scopes, {now}, {now} + :seconds, :no, :digest, :salt)""",
)
READ_TOKEN = Statement("One token.", f"select {_COLUMNS} from hg_api_token where id = :id")
READ_TOKENS = Statement("All tokens.", f"select {_COLUMNS} from hg_api_token order by created_at, id")
REVOKE_TOKEN = Statement(
    "A token opens nothing any more.", "update hg_api_token set revoked = :yes where id = :id and revoked = :no"
)
USE_TOKEN = Statement("A token was used.", "update hg_api_token set last_used_at = {now} where id = :id")


class SqlTokens:
    """API tokens in one SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_token(
        self, token_id: str, name: str, scopes: Sequence[str], seconds: float | None, proof: tuple[str, str]
    ) -> None:
        salt, digest = proof
        values = {"id": token_id, "name": name, "scopes": json.dumps(list(scopes)), "salt": salt, "digest": digest}

        def work(tx: Transaction) -> str:
            tx.run(ADD_TOKEN, **values, seconds=to_micro(seconds), no=False)
            return token_id

        self._database.write(work)

    def token(self, token_id: str) -> tuple[ApiToken, tuple[str, str]] | None:
        found = self._database.single(READ_TOKEN, id=token_id)
        return (_token(found[0]), (str(found[0][8]), str(found[0][7]))) if found else None

    def tokens(self) -> Sequence[ApiToken]:
        return [_token(row) for row in self._database.single(READ_TOKENS)]

    def revoke_token(self, token_id: str) -> bool:
        def work(tx: Transaction) -> bool:
            tx.run(END_OF_TOKEN, token_id=token_id)
            return bool(tx.count(REVOKE_TOKEN, id=token_id, yes=True, no=False))

        return self._database.write(work)

    def use_token(self, token_id: str) -> None:
        self._database.write(lambda tx: tx.run(USE_TOKEN, id=token_id))


def _token(row: Row) -> ApiToken:
    public, name, scopes, created, left, used, revoked, *_proof = row
    return ApiToken(
        str(public), str(name), tuple(json.loads(scopes)), moment(created), to_seconds(left),
        None if used is None else moment(used), bool(revoked),
    )  # fmt: skip
