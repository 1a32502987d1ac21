"""Answers match the OpenAPI document, for valid and invalid requests generated from it."""

from typing import Any

import hypothesis
import pytest
import schemathesis

import headgate
from headgate.http.api import description
from headgate.http.app import API
from headgate.http.port.server import Server
from tests.http.conftest import Tokens

EXAMPLES = 3


@pytest.fixture(scope="module")
def promised() -> schemathesis.BaseSchema:
    """What the service promises."""
    schema = schemathesis.openapi.from_dict(description.openapi(API))
    # Rules for job names, modes and lock ids that a schema cannot express are reported with 422 and the reason.
    schema.config.checks.positive_data_acceptance.expected_statuses = ["2xx", "401", "403", "404", "409", "422"]
    return schema


@pytest.fixture
def openapi(promised: schemathesis.BaseSchema, request: pytest.FixtureRequest) -> schemathesis.BaseSchema:
    request.node._nodeid = request.node.nodeid  # Schemathesis 4.32 imports it; pytest 9.2 no longer has it.
    return promised


#: Read where the test runs: where tests are collected, each process would take seconds for it. Without a stream that
#: has no end, and tokens that would end the test's own.
checked = schemathesis.pytest.from_fixture("openapi").exclude(path="/v1/events").exclude(path_regex="^/v1/tokens")


def is_wait(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) <= 3600
    except (TypeError, ValueError):
        return False


@checked.parametrize()
@hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck), derandomize=True)
@pytest.mark.timeout(600)  # It makes thousands of requests.
def test_every_answer_matches_the_openapi(case: Any, server: Server, token: str) -> None:
    for given in (case.body, case.query):  # A valid wait is shortened; an invalid one is kept.
        if isinstance(given, dict) and is_wait(given.get("wait")):
            given["wait"] = 0
    case.call_and_validate(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


@pytest.fixture(scope="module")
def token(gate: headgate.Gate) -> str:
    return gate.tokens.new("schema", ["admin"]).token


def test_every_operation_and_every_field_of_an_answer_is_described(with_scopes: Tokens) -> None:
    told = with_scopes("read").get("/openapi.json").json()
    for path, methods in told["paths"].items():
        for method, what in methods.items():
            assert what.get("description"), f"{method} {path}"
    for name in ("Lock", "Claim", "Row", "IngestJob"):
        missing = [field for field, what in told["components"]["schemas"][name]["properties"].items()
                   if not what.get("description") and "$ref" not in what]  # fmt: skip
        assert len(missing) <= 6, (name, missing)
