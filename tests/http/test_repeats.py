"""Idempotency-Key on every store: restarts, two replicas, two tenants, simultaneous duplicates, another body."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.calls.idempotency import KEPT_SECONDS, record_id
from headgate.core.errors import StoreUnavailable
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.repeats import SqlRepeats
from headgate.stores.sql.store import SqlStore
from tests.conftest import STORES, fresh_store
from tests.http.replicas import Replica, two_replicas
from tests.shared_servers import Servers
from tests.waiting import until

KEY = {"Idempotency-Key": "k"}
SUBMITTED = {"profile": "p", "submitter": "s", "payload_url": "https://example.org/x"}


@pytest.fixture(params=STORES)
def both(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Two services on one store; where it is ZooKeeper, with the ledger beside it in SQLite."""
    work = {"work_folder": str(tmp_path / "work")}
    for url in fresh_store(request.param, servers, tmp_path):
        if request.param == "zookeeper":
            work["coordination_url"] = url
            url = f"sqlite:///{tmp_path}/headgate.sqlite"  # noqa: PLW2901 - the ledger's
        with two_replicas(url, **work) as found:
            yield found


@pytest.fixture
def clients(both: tuple[Replica, Replica]) -> Iterator[list[httpx2.Client]]:
    """One tenant at both services, and another tenant at the first."""
    ours, theirs = (both[0].gate.tokens.new(name, ["admin"]).token for name in ("ours", "theirs"))
    found = [both[0].client(ours), both[1].client(ours), both[0].client(theirs)]
    yield found
    for each in found:
        each.close()


def _events(client: httpx2.Client, **which: str) -> list[str]:
    return [each["event"] for each in client.get("/v1/history", params=which).json()["items"]]


def test_a_repeat_at_another_replica_gets_the_same_lock_even_after_its_release(clients: list[httpx2.Client]) -> None:
    wanted = {"client": "c", "resource": "r:1", "lease": 60}
    first = clients[0].post("/v1/locks", json=wanted, headers=KEY)
    lock = first.json()["locks"][0]
    assert clients[0].delete(f"/v1/locks/{lock['id']}", params={"token": lock["token"]}).status_code == 204
    again = clients[1].post("/v1/locks", json=wanted, headers=KEY)
    assert (again.status_code, again.content) == (201, first.content)
    assert clients[0].get("/v1/locks").json()["items"] == []
    assert _events(clients[0], resource="r:1").count("grant") == 1


def test_two_tenants_may_use_the_same_key_and_request_id(clients: list[httpx2.Client]) -> None:
    ours, _, theirs = clients
    for name in ("Idempotency-Key", "Headgate-Request"):
        made, held, taken = ({name: f"the same {number}"} for number in range(3))
        batches = [each.post("/v1/batches", json=SUBMITTED, headers=made).json()["id"] for each in (ours, theirs)]
        assert len(set(batches)) == 2, name
        wanted = {"client": "c", "resource": f"tenants:{name}", "mode": "exclusive"}
        assert ours.post("/v1/locks", json=wanted, headers=held).status_code == 201
        assert theirs.post("/v1/locks", json=wanted, headers=held).status_code == 409, name
        work = [each.post("/v1/batches/next?state=pending", json={}, headers=taken).json() for each in (ours, theirs)]
        assert len({each["id"] for each in work}) == 2, name


def test_two_tenants_do_not_share_a_claim(both: tuple[Replica, Replica], clients: list[httpx2.Client]) -> None:
    ledger = both[0].gate.ledger
    ledger.define_dataset("raw")
    ledger.define_job("read", inputs=["raw"])
    ledger.publish("raw", ["1", "2", "3", "4"])
    for name in ("Idempotency-Key", "Headgate-Request"):
        found = [each.post("/v1/jobs/read/next", json={}, headers={name: "same"}).json() for each in clients]
        assert found[0]["dataid"] == found[1]["dataid"], name
        assert found[0]["dataid"] != found[2]["dataid"], name


def test_force_is_done_once(both: tuple[Replica, Replica], clients: list[httpx2.Client]) -> None:
    ledger = both[0].gate.ledger
    ledger.define_dataset("kept")
    ledger.define_job("keep", outputs=["kept"])
    path, sent = "/v1/jobs/keep/chunks/1/force", {"reason": "again", "steal": True}
    first, again = (each.post(path, json=sent, headers=KEY) for each in clients[:2])
    assert (first.status_code, again.content) == (200, first.content)
    other = clients[1].post(path, json={**sent, "reason": "another"}, headers=KEY)
    assert (other.status_code, other.json()["type"]) == (422, "urn:headgate:key-reused")
    assert _events(clients[0], job="keep").count("force") == 1


def test_a_new_api_token_is_shown_once(both: tuple[Replica, Replica], clients: list[httpx2.Client]) -> None:
    body = {"name": "once", "scopes": ["read"]}
    made = clients[0].post("/v1/tokens", json=body, headers=KEY).json()
    again = clients[1].post("/v1/tokens", json=body, headers=KEY)
    assert (again.status_code, again.json()["type"]) == (409, "urn:headgate:already-done")
    assert again.json()["result"] == made["id"]
    assert made["token"] not in again.text
    assert [each.name for each in both[0].gate.tokens.list()].count("once") == 1
    record = both[0].gate.repeats.find(_record(both[0], "ours"))
    assert record
    assert made["token"][-43:] not in repr(record)


def test_duplicates_at_once_have_one_effect(both: tuple[Replica, Replica], clients: list[httpx2.Client]) -> None:
    """Repeats that arrive too early get 409 with Retry-After; then all get the same answer."""

    def send(client: httpx2.Client, number: int) -> Any:
        body, header = {**SUBMITTED, "profile": f"p{number}"}, {"Idempotency-Key": f"at once {number}"}
        answers: list[httpx2.Response] = []

        def answered() -> bool:
            answers.append(client.post("/v1/batches", json=body, headers=header))
            return answers[-1].status_code != 409

        until(answered, "an answer")
        assert {each.status_code for each in answers} <= {201, 409}, answers[-1].text
        return answers[-1].json()["id"]

    with ThreadPoolExecutor(8) as pool:
        for number in range(3):
            found = set(pool.map(lambda each: send(each, number), [*clients[:2]] * 4))  # noqa: B023 - run at once
            assert len(found) == 1
    assert len(both[0].gate.queue.batches()) == 3


def test_while_the_first_one_waits_its_key_is_in_use(
    both: tuple[Replica, Replica], clients: list[httpx2.Client]
) -> None:
    held = both[0].gate.locks.acquire("holder", "r:busy", "exclusive")
    wanted = {"client": "w", "resource": "r:busy", "wait": 50}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(clients[0].post, "/v1/locks", json=wanted, headers=KEY)
        until(lambda: both[0].gate.locks.waiters("r:busy"), "it to wait")
        early = clients[0].post("/v1/locks", json=wanted, headers=KEY)
        assert (early.status_code, early.json()["type"]) == (409, "urn:headgate:key-in-use")
        both[0].gate.locks.release(held)
        answer = first.result()
    assert answer.status_code == 201
    assert clients[1].post("/v1/locks", json=wanted, headers=KEY).content == answer.content


def test_a_refused_request_can_be_retried_with_its_key(
    both: tuple[Replica, Replica], clients: list[httpx2.Client]
) -> None:
    held = both[0].gate.locks.acquire("holder", "r:1", "exclusive")
    wanted = {"client": "c", "resource": "r:1"}
    for wait in (0, 0.1):
        assert clients[0].post("/v1/locks", json={**wanted, "wait": wait}, headers=KEY).status_code == 409
    both[0].gate.locks.release(held)
    assert clients[1].post("/v1/locks", json=wanted, headers=KEY).status_code == 201


def test_an_answer_that_was_not_stored_is_rebuilt(
    both: tuple[Replica, Replica], clients: list[httpx2.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the service dies after the effect: only the record written with the effect exists."""

    def away(*_: object) -> None:
        raise StoreUnavailable("the store", "it went away just then")

    monkeypatch.setattr(SqlRepeats, "answered", away)
    wanted = {"client": "c", "resource": "r:1", "lease": 60}
    locks = [each.post("/v1/locks", json=wanted, headers=KEY).json()["locks"][0] for each in clients[:2]]
    assert (locks[0]["id"], locks[0]["token"]) == (locks[1]["id"], locks[1]["token"])
    made = [each.post("/v1/batches", json=SUBMITTED, headers={"Idempotency-Key": "b"}).json() for each in clients[:2]]
    assert made[0]["id"] == made[1]["id"]
    broken = [
        each.post(f"/v1/locks/{locks[0]['id']}/break", json={"reason": "why"}, headers={"Idempotency-Key": "break"})
        for each in clients[:2]
    ]
    if len(both[0].gate.store.parts) > 1:  # The result of a multi is known only afterwards.
        assert (broken[1].status_code, broken[1].json()["type"]) == (409, "urn:headgate:already-done")
    else:
        assert broken[1].json() == broken[0].json()
    assert _events(clients[0], resource="r:1") == ["break", "grant"]
    assert _events(clients[0], noun="batch") == ["submit"]


def test_a_file_is_kept_once(both: tuple[Replica, Replica], clients: list[httpx2.Client]) -> None:
    path = "/v1/uploads?name=x.txt"
    first, again = (each.post(path, content=b"some bytes", headers=KEY) for each in clients[:2])
    assert (first.status_code, again.content) == (201, first.content)
    assert clients[1].post(path, content=b"other bytes", headers=KEY).status_code == 422
    assert len(list(both[0].gate.work_folder.rglob("x.txt"))) == 1


def test_a_key_is_forgotten_after_a_day_and_not_before(
    both: tuple[Replica, Replica], clients: list[httpx2.Client]
) -> None:
    made = [clients[0].post("/v1/tokens", json={"name": "n", "scopes": ["read"]}, headers=KEY).status_code]
    repeats = both[0].gate.repeats
    assert repeats.clean() == 0
    store = both[0].gate.store.parts[0]
    assert isinstance(store, SqlStore)
    older = Statement("A day passes.", "update hg_repeat set at = at - :age")
    store._database.write(lambda tx: tx.run(older, age=int(KEPT_SECONDS * 1e6)))
    assert repeats.clean() == 1
    made.append(clients[1].post("/v1/tokens", json={"name": "n", "scopes": ["read"]}, headers=KEY).status_code)
    assert made == [201, 201]


def test_a_key_must_be_text_that_can_be_stored(clients: list[httpx2.Client]) -> None:
    for key in ("", "k" * 201):
        answer = clients[0].post("/v1/batches", json=SUBMITTED, headers={"Idempotency-Key": key})
        assert answer.status_code == 422, key


def _record(replica: Replica, name: str) -> str:
    token = next(each for each in replica.gate.tokens.list() if each.name == name)
    return record_id(token.principal, KEY["Idempotency-Key"])
