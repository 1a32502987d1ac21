"""API tokens on every SQL store: verified, rotated, ended."""

import pytest

import headgate
from headgate import NotAllowed
from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import database

NO_OWNER = Statement("Nobody owns a lock.", "update hg_lock set principal = ''")


def test_a_token_is_reported_and_ends(sql_url: str) -> None:
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


def test_a_lock_without_an_owner_is_for_any_caller_with_its_token(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        held = gate.locks.acquire("c", "file:/x", "exclusive", lease=60)
        database(gate).write(lambda tx: tx.run(NO_OWNER))
        with acting(Actor("ann")):
            assert gate.locks.renew(held).principal == ""
            gate.locks.release(held)
