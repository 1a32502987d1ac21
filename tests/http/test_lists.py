"""Every list has the same form, `items` and `next`, and is paged in the same way, with `after` and `limit`."""

from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest

from headgate import Gate
from headgate.http.api.description import openapi
from headgate.http.app import API
from tests.contract.ledger_steps import one_job

#: Lists that are always complete: as long as the number of jobs, datasets or problems.
WHOLE = {
    "/v1/alarms", "/v1/batches/{bid}/alarms", "/v1/chunks/standing", "/v1/chunks/tallies", "/v1/history/counts",
    "/v1/ingest-jobs/{jid}/explanation",
    "/v1/machines", "/v1/master-keys", "/v1/queue/faults", "/v1/store/faults", "/v1/tokens/expiring",
}  # fmt: skip
#: Short by nature: one entry for each attempt.
SHORT = {"/v1/jobs/{job}/chunks/{dataid}/logs", "/v1/ingest-jobs/{job}/logs"}
#: The next things to do: the rest follows when these are done.
TO_DO = {
    "/v1/jobs/{job}/plan", "/v1/master-wraps", "/v1/messages/due", "/v1/queue/cleanable", "/v1/queue/reportable",
}  # fmt: skip
PAGED = (
    "locks", "waiters", "clients", "resources", "history", "datasets", "jobs", "chunks", "failures",
    "chunks/spans?dataset=raw", "batches", "ingest-jobs", "batches/bid0000000001/jobs", "holds", "daemons", "tokens",
)  # fmt: skip

CHANGING = {"last_used", "expires_in"}


@cache
def answers() -> dict[tuple[str, str], dict[str, Any]]:
    """The schema of the successful JSON answer of each operation."""
    document = openapi(API)
    found = {}
    for path, methods in document["paths"].items():
        for method, what in methods.items():
            for status, answer in what["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema")
                if schema and status.startswith("2"):
                    name = schema.get("$ref", "").rpartition("/")[2]
                    found[method.upper(), path] = document["components"]["schemas"].get(name, schema)
    return found


def lists() -> set[tuple[str, str]]:
    """The operations that return a list."""
    return {where for where, schema in answers().items() if "items" in schema.get("properties", {})}


def test_no_operation_answers_a_bare_array_and_every_list_has_items_and_next() -> None:
    assert {where for where, schema in answers().items() if schema.get("type") == "array"} == set()
    assert len(lists()) > 35
    for where in lists():
        assert set(answers()[where]["properties"]) == set(answers()[where]["required"]) == {"items", "next"}, where


def test_every_list_that_can_grow_is_paged_by_after_and_limit() -> None:
    document = openapi(API)
    asked = {
        path: {each["name"] for each in document["paths"][path]["get"].get("parameters", [])}
        for method, path in lists()
        if method == "GET"
    }
    assert set(asked) >= WHOLE | TO_DO | SHORT
    for path, names in asked.items():
        paging = names & {"after", "limit", "cursor", "offset", "page", "next"}
        wanted = set() if path in WHOLE else {"limit"} if path in TO_DO | SHORT else {"after", "limit"}
        assert paging == wanted, path


@pytest.fixture(scope="module")
def filled(gate: Gate) -> Gate:
    """A store that has at least three of everything that can be listed."""
    one_job(gate)
    gate.ledger.publish("raw", ["1", "2", "3", "10"])
    for dataid in ("1", "2", "3"):
        gate.locks.acquire(f"client-{dataid}", f"r:{dataid}", "exclusive", wait=0)
        gate.locks.register_client(f"client-{dataid}")
        gate.ledger.fail(gate.ledger.claim("clean", dataid), "no disk")
        gate.queue.submit(payload_url="file:/x", profile=f"p{dataid}", submitter="me")
        gate.queue.set_hold(f"p{dataid}", reason="full", by="me")
        gate.tokens.new(f"token {dataid}", ["read"])
    return gate


def test_pages_of_any_size_make_the_same_list(filled: Gate, admin: httpx2.Client) -> None:
    assert filled.ledger.failures(), "the store is filled"
    lengths = {}
    for path in PAGED:
        whole = list(paged(admin, path, 1000))
        lengths[path] = len(whole)
        for limit in (1, 2):
            assert list(paged(admin, path, limit)) == whole, (path, limit)
    empty = {"waiters", "ingest-jobs", "batches/bid0000000001/jobs", "daemons"}
    assert {path for path, length in lengths.items() if length < 2} == empty


def paged(client: httpx2.Client, path: str, limit: int) -> Iterator[Any]:
    """The items of a list, page by page, without fields that change between requests."""
    address, _, query = path.partition("?")
    asked = {**dict(parse_qsl(query)), "limit": str(limit)}
    for _ in range(100):
        page = client.get(f"/v1/{address}", params=asked).json()
        for item in page["items"]:
            yield {key: item[key] for key in item if key not in CHANGING} if isinstance(item, dict) else item
        if page["next"] is None:
            return
        asked["after"] = page["next"]
    raise AssertionError(f"{path} has no end")


@pytest.mark.parametrize("name", ["since", "until"])
def test_a_time_that_does_not_exist_is_refused_by_its_name(admin: httpx2.Client, name: str) -> None:
    answer = admin.get("/v1/history", params={name: "2026-13-01T00:00:00Z"})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{name} '2026-13-01T00:00:00Z' is not valid: month")
