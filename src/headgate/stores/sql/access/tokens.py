"""API tokens in SQL, with the scopes of each. This code cannot use the tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headgate.core.access.scopes import ApiToken, TokenToMake
from headgate.stores.sql.access.browser_sessions import END_OF_TOKEN
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import moment, to_micro, to_seconds
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction

_COLUMNS = "id, name, scopes, created_at, expires_at - {now}, last_used_at, revoked, principal, digest, salt"
ADD_TOKEN = Statement(
    "A new token.",
    """insert into hg_api_token (id, name, scopes, created_at, expires_at, revoked, digest, salt, principal)
       values (:id, :name, :scopes, {now}, {now} + :seconds, :no, :digest, :salt, :principal)""",
)
ROTATE_TOKEN = Statement(
    "A token with the same principal and scopes, and its own secret.",
    """insert into hg_api_token (id, name, scopes, created_at, expires_at, revoked, digest, salt, principal)
       select :id, t.name, t.scopes, {now}, coalesce({now} + :seconds, t.expires_at), :no, :digest, :salt, t.principal
       from hg_api_token t where t.id = :old and t.revoked = :no""",
)
READ_TOKEN = Statement("One token.", f"select {_COLUMNS} from hg_api_token where id = :id")
READ_TOKENS = Statement("All tokens.", f"select {_COLUMNS} from hg_api_token order by created_at, id")
REVOKE_TOKEN = Statement("Revoke a token.", "update hg_api_token set revoked = :yes where id = :id and revoked = :no")
USE_TOKEN = Statement("A token was used.", "update hg_api_token set last_used_at = {now} where id = :id")


class SqlTokens:
    """API tokens in one SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_token(self, token: TokenToMake, proof: tuple[str, str]) -> None:
        salt, digest = proof
        scopes = json.dumps(list(token.scopes))
        values = {"id": token.id, "name": token.name, "scopes": scopes, "salt": salt, "digest": digest}

        def work(tx: Transaction) -> str:
            tx.run(ADD_TOKEN, **values, principal=token.principal, seconds=to_micro(token.seconds), no=False)
            return token.id

        self._database.write(work)

    def rotate_token(self, old: str, new: str, seconds: float | None, proof: tuple[str, str]) -> bool:
        salt, digest = proof
        values = {"id": new, "old": old, "seconds": to_micro(seconds), "salt": salt, "digest": digest}

        def work(tx: Transaction) -> str | None:
            if not tx.count(ROTATE_TOKEN, **values, no=False):
                return None
            _revoke(tx, old)
            return new

        return self._database.write(work) is not None

    def token(self, token_id: str) -> tuple[ApiToken, tuple[str, str]] | None:
        found = self._database.single(READ_TOKEN, id=token_id)
        return (_token(found[0]), (str(found[0][9]), str(found[0][8]))) if found else None

    def tokens(self) -> Sequence[ApiToken]:
        return [_token(row) for row in self._database.single(READ_TOKENS)]

    def revoke_token(self, token_id: str) -> bool:
        return self._database.write(lambda tx: _revoke(tx, token_id))

    def use_token(self, token_id: str) -> None:
        self._database.write(lambda tx: tx.run(USE_TOKEN, id=token_id))


def _revoke(tx: Transaction, token_id: str) -> bool:
    """Revoke a token and end the sessions that were started with it."""
    tx.run(END_OF_TOKEN, token_id=token_id)
    return bool(tx.count(REVOKE_TOKEN, id=token_id, yes=True, no=False))


def _token(row: Row) -> ApiToken:
    public, name, scopes, created, left, used, revoked, principal, *_proof = row
    return ApiToken(
        str(public), str(name), tuple(json.loads(scopes)), moment(created), to_seconds(left),
        None if used is None else moment(used), bool(revoked), str(principal),
    )  # fmt: skip
