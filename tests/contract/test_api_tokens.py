"""API tokens on every SQL store: brought to an older store, proven, ended."""

import pytest

import headgate
from headgate import NotAllowed
from headgate.core.owners import Actor
from headgate.migrating import migrate
from headgate.stores.acting import acting
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.engine import Database
from headgate.stores.sql.statement import Statement
from tests.contract.test_ledger_schema import to_version

OLD_TOKEN = Statement(
    "A token of before.",
    """insert into hg_api_token (id, name, scopes, created_at, revoked, digest)
       values ('abcdefghijkl', 'ann', '["read"]', 1, :no, '')""",
)
NO_OWNER = Statement("Locks of before.", "update hg_lock set principal = ''")


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
        assert proven.principal == "worker"


def test_a_token_is_told_of_and_ends(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        lasting, short = gate.tokens.new("lasting", ["read"]), gate.tokens.new("short", ["read"], expires=0)
        gate.tokens.prove(lasting.token)
        told = {each.name: each for each in gate.tokens.list()}
        assert told["lasting"].last_used is not None
        assert (told["lasting"].good, told["short"].good) == (True, False)
        with pytest.raises(NotAllowed, match="has expired"):
            gate.tokens.prove(short.token)
        gate.tokens.revoke(lasting.id)
        with pytest.raises(NotAllowed, match="was revoked"):
            gate.tokens.prove(lasting.token)
    with headgate.connect(sql_url) as again, pytest.raises(NotAllowed):
        again.tokens.prove(lasting.token[:-1] + ("a" if lasting.token[-1] != "a" else "b"))


def test_a_token_belongs_to_a_principal_and_rotating_keeps_it(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        ann = gate.tokens.new("ann", ["read"], expires=100, principal="nightly")
        nameless = gate.tokens.new("ann: desk", ["read"])
        assert (ann.principal, nameless.principal) == ("nightly", nameless.id)
        rotated = gate.tokens.rotate(ann.id)
        with pytest.raises(NotAllowed, match="was revoked"):
            gate.tokens.prove(ann.token)
        proven = gate.tokens.prove(rotated.token)
        assert (proven.name, proven.scopes, proven.principal) == ("ann", ("read",), "nightly")
        assert 0 < (proven.expires_in or 0) <= 100
        longer = gate.tokens.rotate(rotated.id, expires=1000)
        assert (gate.tokens.get(longer.id).expires_in or 0) > 100
        for gone in (ann.id, "nobodyhasit1"):
            with pytest.raises(headgate.UnknownName):
                gate.tokens.rotate(gone)
        for wrong in ("local", "a:b", "", "a/b", "x" * 101):
            with pytest.raises(headgate.BadValue, match="principal"):
                gate.tokens.new("ann", ["read"], principal=wrong)


def test_an_older_token_and_an_older_lock_go_on_after_the_upgrade(
    sql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token keeps the request ids that it has used; a lock without an owner is for whoever has its token."""
    to_version(sql_url, "0014", monkeypatch)
    older = Database(dialect_for(sql_url))
    older.write(lambda tx: tx.run(OLD_TOKEN, no=False))
    older.close()
    migrate(sql_url)
    with headgate.connect(sql_url) as gate:
        assert [(each.id, each.principal) for each in gate.tokens.list()] == [("abcdefghijkl", "abcdefghijkl")]
        held = gate.locks.acquire("c", "file:/x", "exclusive", lease=60)
        older = Database(dialect_for(sql_url))
        older.write(lambda tx: tx.run(NO_OWNER))
        older.close()
        with acting(Actor("ann")):
            assert gate.locks.renew(held).principal == ""
            gate.locks.release(held)
