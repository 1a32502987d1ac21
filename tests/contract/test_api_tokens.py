"""API tokens on every SQL store: brought to an older store, proven, ended."""

import pytest

import headgate
from headgate import NotAllowed
from headgate.migrating import migrate
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.engine import Database
from headgate.stores.sql.statement import Statement
from tests.contract.test_ledger_schema import to_version


def test_an_older_store_gets_api_tokens_and_keeps_the_rest(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to_version(sql_url, "0007", monkeypatch)
    older = Database(dialect_for(sql_url))
    older.write(lambda tx: tx.run(Statement("A client.", "insert into hg_client (name, since) values ('ann', 1)")))
    if not sql_url.startswith("sqlite"):
        # As an interrupted migration leaves it where the schema is not part of the transaction.
        older.write(lambda tx: tx.run(Statement("Half of it.", "create table hg_api_token (id int)")))
    older.close()
    with pytest.raises(headgate.SchemaMismatch, match="headgate migrate"):
        headgate.connect(sql_url)
    assert migrate(sql_url).changed
    with headgate.connect(sql_url) as gate:
        assert [name for name, _ in gate.locks.clients()] == ["ann"]
        made = gate.tokens.new("worker", ["chunk:claim:clean", "read"])
        proven = gate.tokens.prove(made.token)
        assert (proven.id, proven.name, proven.scopes) == (made.id, "worker", ("chunk:claim:clean", "read"))


def test_a_token_is_told_of_and_ends(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        lasting, short = gate.tokens.new("lasting", ["read"]), gate.tokens.new("short", ["read"], expires=0)
        gate.tokens.prove(lasting.token)
        told = {each.name: each for each in gate.tokens.list()}
        assert told["lasting"].last_used is not None
        assert (told["lasting"].good, told["short"].good) == (True, False)
        with pytest.raises(NotAllowed, match="has ended"):
            gate.tokens.prove(short.token)
        gate.tokens.revoke(lasting.id)
        with pytest.raises(NotAllowed, match="has ended"):
            gate.tokens.prove(lasting.token)
    with headgate.connect(sql_url) as again, pytest.raises(NotAllowed):
        again.tokens.prove(lasting.token[:-1] + ("a" if lasting.token[-1] != "a" else "b"))
