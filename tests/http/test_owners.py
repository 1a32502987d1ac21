"""Owners over HTTP: what lists show, the override header, revoking and rotating tokens, and keys of each principal."""

from pathlib import Path
from typing import Any

import pytest

from headgate import Gate
from tests.http.conftest import Tokens


def taken(client: Any, resource: str, **more: Any) -> dict[str, Any]:
    """A lock that this caller holds."""
    body = {"client": "c", "resource": resource, "lease": 60, **more}
    answer = client.post("/v1/locks", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["locks"][0]
    return found


def test_the_list_of_locks_does_not_allow_releasing_them(with_scopes: Tokens) -> None:
    """The attack that once worked: read the list, then release with its data, or join by the client's name."""
    ann = with_scopes("lock:acquire", "read", principal="ann")
    bob = with_scopes("lock:acquire", "read", principal="bob")
    lock = taken(ann, "file:/mine")
    path = f"/v1/locks/{lock['id']}"
    chief = with_scopes("admin:force", "read", principal="chief")
    seen = [each.get("/v1/locks?resource=file:/mine").json()["items"][0] for each in (ann, bob, chief)]
    assert [each["token"] for each in seen] == [lock["token"], 0, lock["token"]]
    assert {each["principal"] for each in seen} == {"ann"}
    assert bob.get(path).json()["token"] == 0
    (holder,) = bob.get("/v1/status?rich=true").json()["holders"]
    assert (holder["token"], "request_id" in holder) == (0, False)
    for guess in (lock["token"], lock["token"] + 1):
        refused = bob.delete(f"{path}?token={guess}")
        problem = refused.json()
        assert (refused.status_code, problem["type"]) == (403, "urn:headgate:not-owner")
        assert (problem["owner"], problem["principal"]) == ("ann", "bob")
        assert f"{lock['token']} " not in problem["detail"]
    joined = bob.post("/v1/locks", json={"client": "c", "resource": "file:/mine", "reentrant": True})
    assert (joined.status_code, joined.json()["blockers"][0]["principal"]) == (409, "ann")
    assert ann.post(f"{path}/check", json={"token": lock["token"]}).status_code == 200
    assert ann.delete(f"{path}?token={lock['token']}").status_code == 204


def test_an_override_takes_the_force_scope_and_a_reason(with_scopes: Tokens, gate: Gate) -> None:
    ann = with_scopes("lock:acquire", principal="ann")
    lock = taken(ann, "file:/override")
    path = f"/v1/locks/{lock['id']}?token={lock['token']}"
    bob = with_scopes("lock:acquire", principal="bob")
    refused = bob.delete(path, headers={"Headgate-Override": "I want it"})
    assert (refused.status_code, refused.json()["scope"]) == (403, "admin:force")
    chief = with_scopes("lock:acquire", "admin:force", principal="chief")
    assert chief.delete(path).status_code == 403
    assert chief.delete(path, headers={"Headgate-Override": "%20"}).status_code == 422
    reason = "die Platte ist voll: %C3%BC"
    assert chief.delete(path, headers={"Headgate-Override": reason}).status_code == 204
    told = gate.history(resource="file:/override", event="release")[0]
    assert (told.principal, told.client, told.reason) == ("chief", "c", "override: die Platte ist voll: ü")


def test_an_operators_act_is_recorded_under_its_principal_not_the_given_name(with_scopes: Tokens, gate: Gate) -> None:
    lock = taken(with_scopes("lock:acquire", principal="ann"), "file:/break")
    admin = with_scopes("admin", principal="root")
    body = {"reason": "the host is gone", "by": "somebody else"}
    assert admin.post(f"/v1/locks/{lock['id']}/break", json=body).status_code == 200
    told = gate.history(resource="file:/break", event="break")[0]
    assert (told.principal, told.reason) == ("root", "somebody else: the host is gone")
    assert admin.put("/v1/holds/attic", json={"reason": "full", "by": "somebody"}).status_code == 200
    entry = admin.get("/v1/history?noun=hold").json()["items"][0]
    assert (entry["principal"], entry["client"]) == ("root", "somebody")


def test_revoking_lists_what_the_principal_still_holds_and_rotating_keeps_it(with_scopes: Tokens) -> None:
    admin = with_scopes("admin", principal="root")
    made = admin.post("/v1/tokens", json={"name": "ann", "scopes": ["lock:acquire"], "principal": "shift"}).json()
    ann = with_scopes("lock:acquire", principal="shift")
    lock = taken(ann, "file:/held")
    rotated = admin.post(f"/v1/tokens/{made['id']}/rotate", json={}).json()
    assert (rotated["principal"], rotated["id"] != made["id"]) == ("shift", True)
    listed = {each["id"]: each for each in admin.get("/v1/tokens").json()["items"]}
    assert (listed[made["id"]]["revoked"], listed[rotated["id"]]["principal"]) == (True, "shift")
    headers = {"Authorization": f"Bearer {rotated['token']}"}
    renewed = ann.post(f"/v1/locks/{lock['id']}/renew", json={"token": lock["token"]}, headers=headers)
    assert renewed.status_code == 200
    left = admin.delete(f"/v1/tokens/{rotated['id']}").json()
    assert (left["principal"], [each["id"] for each in left["held"]]) == ("shift", [lock["id"]])
    assert admin.delete(f"/v1/tokens/{rotated['id']}").status_code == 404


def test_idempotency_keys_and_request_ids_belong_to_a_principal(with_scopes: Tokens) -> None:
    """Two tokens of one principal share them; a resource that begins like the principal's name stays as it is."""
    body = {"client": "c", "resource": "shift:x", "lease": 60}
    first, second = (with_scopes("lock:acquire", principal="shift") for _ in range(2))
    keyed = {"Idempotency-Key": "once"}
    one, two = (each.post("/v1/locks", json=body, headers=keyed).json()["locks"][0] for each in (first, second))
    assert (one["id"], one["resource"], one["request_id"]) == (two["id"], "shift:x", "once")
    other = with_scopes("lock:acquire", principal="other").post("/v1/locks", json=body, headers=keyed)
    assert (other.status_code, other.json()["blockers"][0]["resource"]) == (409, "shift:x")


def test_a_queue_position_belongs_to_its_request_whatever_number_is_sent(with_scopes: Tokens) -> None:
    """A number of another principal's ticket changes no position, and a smaller number overtakes nobody."""
    ann = with_scopes("lock:acquire", "read", principal="ann")
    bob = with_scopes("lock:acquire", principal="bob")
    lock = taken(ann, "file:/queue")
    waits: dict[str, Any] = {"client": "honest", "resource": "file:/queue", "lease": 60}
    ticket = ann.post("/v1/waiters", json=waits, headers={"Headgate-Request": "w"}).json()["ticket"]
    theft: dict[str, Any] = {"client": "evil", "resource": "file:/queue", "lease": 60, "request_id": "w"}

    def queue() -> list[str]:
        return [each["client"] for each in ann.get("/v1/waiters?resource=file:/queue").json()["items"]]

    assert bob.post(f"/v1/waiters/{ticket}/withdraw", json=theft).status_code == 204
    assert queue() == ["honest"]
    assert bob.post(f"/v1/waiters/{ticket}/give-up", json=theft).status_code == 409
    assert queue() == ["honest"]
    for number in (ticket, 0, -5):
        assert bob.post(f"/v1/waiters/{number}/turn", json=theft).status_code == 204
        assert queue() == ["honest", "evil"]
    assert ann.delete(f"/v1/locks/{lock['id']}?token={lock['token']}").status_code == 204
    assert bob.post("/v1/waiters/-5/turn", json=theft).status_code == 204
    got = ann.post(f"/v1/waiters/{ticket}/turn", json={**waits, "request_id": "w"})
    assert (got.status_code, got.json()["locks"][0]["client"]) == (200, "honest")
    assert bob.post(f"/v1/waiters/{ticket}/withdraw", json=theft).status_code == 204
    assert queue() == []


def test_locks_acquired_on_the_store_directly_belong_to_the_local_principal(with_scopes: Tokens, gate: Gate) -> None:
    """There is no API token of the principal `local`, so a refusal names another way."""
    lock = gate.locks.acquire("c", "file:/direct", "exclusive", lease=60)
    refused = with_scopes("lock:acquire", principal="bob").delete(f"/v1/locks/{lock.id}?token={lock.token}")
    assert (refused.status_code, refused.json()["owner"]) == (403, "local")
    assert "Use the store directly" in refused.json()["detail"]
    assert "API token of 'local'" not in refused.json()["detail"]


def test_the_former_owner_of_a_handed_over_lock_does_not_learn_its_new_token(with_scopes: Tokens) -> None:
    ann = with_scopes("lock:acquire", principal="ann")
    bob = with_scopes("lock:acquire", principal="bob")
    chief = with_scopes("admin:force", principal="chief")
    lock = taken(ann, "file:/handed")
    path = f"/v1/locks/{lock['id']}"
    handed = ann.post(f"{path}/hand-over", json={"to": "bob", "reason": "your turn"}).json()
    assert (handed["principal"], handed["token"], "request_id" in handed) == ("bob", 0, False)
    assert bob.get(path).json()["token"] == lock["token"] + 1
    kept = bob.post(f"{path}/hand-over", json={"to": "bob", "reason": "a new number"}).json()
    assert kept["token"] == lock["token"] + 2
    forced = {"Headgate-Override": "ann is back"}
    assert chief.post(f"{path}/hand-over", json={"to": "ann"}, headers=forced).json()["token"] == lock["token"] + 3


def test_a_key_returns_no_answer_beyond_the_scopes_of_a_token(with_scopes: Tokens) -> None:
    """Keys belong to a principal, whose tokens may have different scopes."""
    wide, narrow = (with_scopes(scope, principal="cem") for scope in ("lock:acquire", "lock:acquire:other:"))
    key, wanted = {"Idempotency-Key": "of cem"}, {"client": "c", "resource": "own:1"}
    first = wide.post("/v1/locks", json=wanted, headers=key)
    assert first.status_code == 201
    refused = narrow.post("/v1/locks", json=wanted, headers=key)
    assert (refused.status_code, first.json()["locks"][0]["id"] in refused.text) == (422, False)
    assert (
        with_scopes("lock:acquire", principal="cem").post("/v1/locks", json=wanted, headers=key).json() == first.json()
    )


def test_an_owner_decides_neither_crashes_of_jobs_nor_problems_of_others(
    with_scopes: Tokens, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profiles = tmp_path / "headgate-profiles"
    profiles.mkdir()
    (profiles / "demo.toml").write_text('collection = "c"\nowner = "o"\nmax_crashes = 2\n')
    ann = with_scopes("queue:submit", "queue:work", principal="ann")
    bob = with_scopes("queue:work", principal="bob")
    body = {"profile": "demo", "submitter": "ann", "payload_url": "file:///x"}
    bid = ann.post("/v1/batches", json=body).json()["id"]
    problem = f"/v1/inventory/intakes/{bid}/problem"
    assert ann.put(problem, json={"problem": "it is mine"}).status_code == 409, "nobody has taken it"
    batch = ann.post("/v1/batches/next?state=pending", json={}).json()
    assert batch["id"] == bid
    refused = bob.put(problem, json={"problem": "I want it to fail"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:headgate:not-owner")
    assert ann.put(problem, json={"problem": "no end marker"}).status_code == 204
    proof = {"token": batch["token"], "state": "pending", "worker": batch["worker"], "position": 0}
    row = {"payload_url": "file:///x"}
    endless = ann.post(f"/v1/batches/{bid}/jobs", json={**proof, "jobs": [{**row, "settings": {"max_crashes": 0}}]})
    assert endless.status_code == 422
    assert "taken from the profile" in endless.json()["detail"]
    assert ann.post(f"/v1/batches/{bid}/jobs", json={**proof, "jobs": [row]}).status_code == 200
    (job,) = gate.queue.jobs(batch=bid)
    assert job.configuration["max_crashes"] == 2
