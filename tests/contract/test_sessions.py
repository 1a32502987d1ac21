"""Browser sessions and sign-in codes on every SQL store: random, kept as digests, ended for every service at once."""

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headgate
from headgate import BadValue, Gate, NotAllowed
from headgate.moving import backing_up, restoring
from headgate.service.access.sessions import MOST_OF_A_TOKEN
from headgate.settings import load
from headgate.stores.sql.database.facts import read_facts
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.schema import metadata
from tests.contract.ledger_steps import database


def everything(gate: Gate) -> str:
    """All content of the store, as a reader sees it."""
    kept = database(gate)
    names = sorted(metadata.tables)
    return repr([kept.single(Statement("Read.", f"select * from {name}")) for name in names])  # noqa: S608


def time_passes(gate: Gate, seconds: int) -> None:
    older = Statement("Time passes.", "update hg_session set expires_at = expires_at - :far")
    database(gate).write(lambda tx: tx.run(older, far=seconds * 1_000_000))


def test_reading_the_store_signs_nobody_in(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        token = gate.tokens.new("ann", ["admin"])
        session, code = gate.sessions.sign_in(token.token), gate.sessions.new_code(token.id)
        held, facts = everything(gate), read_facts(database(gate))
        assert not [text for text in (session, code.code, token.token) if text in held]
        assert not [name for name in facts if "key" in name], "nothing that could sign a session"
        found = gate.sessions.find(session)
        assert (found.token.id, found.form_key in held, found.digest in held) == (token.id, False, True)
        for text in (found.digest, *facts.values()):
            with pytest.raises(NotAllowed, match="you are not signed in"):
                gate.sessions.find(text)


def test_a_session_ends_for_every_service_by_sign_out_expiry_and_with_its_token(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate, headgate.connect(sql_url) as other:
        token, second = gate.tokens.new("ann", ["read"]), gate.tokens.new("ben", ["read"], expires=3600)
        mine, also = gate.sessions.sign_in(token.token), gate.sessions.sign_in(token.token)
        short = gate.sessions.sign_in(second.token)
        digests = [other.sessions.find(each).digest for each in (mine, also, short)]
        gate.sessions.end(mine)
        with pytest.raises(NotAllowed, match="you are not signed in"):
            other.sessions.find(mine)
        assert other.sessions.ended(digests) == {digests[0]}
        gate.tokens.revoke(token.id)
        with pytest.raises(NotAllowed):
            other.sessions.find(also)
        assert other.sessions.find(short).token.name == "ben"
        time_passes(gate, 3601)  # No session outlives its token.
        with pytest.raises(NotAllowed):
            other.sessions.find(short)
        assert other.sessions.ended(digests) == set(digests)
        gate.sessions.sign_in(gate.tokens.new("cyd", ["read"]).token)
        assert len(database(gate).single(Statement("Kept.", "select id from hg_session"))) == 1


def test_a_code_signs_in_once_and_not_for_long(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate, headgate.connect(sql_url) as other:
        with pytest.raises(BadValue, match="no API token yet"):
            gate.sessions.new_code()
        token = gate.tokens.new("ann", ["read"])
        code = gate.sessions.new_code()
        assert 240 <= code.seconds <= 600
        assert other.sessions.whose(code.code).name == "ann"
        with pytest.raises(NotAllowed, match="you are not signed in"):
            other.sessions.find(code.code)

        def redeem(where: Gate) -> str | None:
            try:
                return where.sessions.redeem(code.code)
            except NotAllowed:
                return None

        with ThreadPoolExecutor(4) as tries:
            begun = [each for each in tries.map(redeem, [gate, other] * 4) if each]
        assert len(begun) == 1
        assert gate.sessions.find(begun[0]).token.id == token.id
        for wrong in (code.code, begun[0], "hgc_", "", token.token):
            with pytest.raises(NotAllowed, match="used already or has expired"):
                gate.sessions.redeem(wrong)
        late, lost = gate.sessions.new_code(token.id), gate.sessions.new_code(token.id)
        gate.tokens.revoke(token.id)
        with pytest.raises(NotAllowed):
            gate.sessions.redeem(lost.code)
        gate.tokens.new("ben", ["read"])
        late = gate.sessions.new_code()
        time_passes(gate, round(late.seconds) + 1)
        with pytest.raises(NotAllowed, match="used already or has expired"):
            gate.sessions.redeem(late.code)
        gate.tokens.new("cyd", ["read"])
        with pytest.raises(BadValue, match="there are 2 API tokens"):
            gate.sessions.new_code()


def test_the_number_of_sessions_per_token_is_limited(tmp_path: Path) -> None:
    with headgate.connect(f"sqlite:///{tmp_path}/store.sqlite") as gate:
        token = gate.tokens.new("ann", ["read"]).token
        begun = [gate.sessions.sign_in(token) for _ in range(MOST_OF_A_TOKEN + 1)]
        with pytest.raises(NotAllowed):
            gate.sessions.find(begun[0])
        assert gate.sessions.find(begun[1]).token.name == "ann"


def test_a_backup_has_no_session_and_no_key_and_an_older_one_brings_none(tmp_path: Path) -> None:
    source, target = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("source", "target"))
    with headgate.connect(source) as gate:
        token = gate.tokens.new("ann", ["admin"])
        session, code = gate.sessions.sign_in(token.token), gate.sessions.new_code(token.id)
        digest = gate.sessions.find(session).digest
    with backing_up(load({"url": source}), tmp_path / "backup.gz") as work:
        work.run(lambda _: None)
    text = gzip.decompress((tmp_path / "backup.gz").read_bytes()).decode()
    assert not [part for part in ("hg_session", "api_token_key", digest, session, code.code) if part in text]
    with restoring(load({"url": target}), tmp_path / "backup.gz") as work:
        work.run(lambda _: None)
    with headgate.connect(target) as gate:
        assert gate.tokens.prove(token.token).name == "ann"
        with pytest.raises(NotAllowed, match="you are not signed in"):
            gate.sessions.find(session)
