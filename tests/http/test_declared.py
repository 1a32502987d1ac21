"""A declaration is all that is needed to serve an operation: route, checks, scope, repeats, OpenAPI."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, cast

import pytest

import headgate
import headgate.client
from headgate import Gate
from headgate.client.connection import ServiceConnection
from headgate.client.sending import remote, send
from headgate.core.errors import BadValue, NotAllowed
from headgate.http.api import description
from headgate.http.api.handlers import Handlers, Served, repeat_of
from headgate.http.app import API
from headgate.http.port.server import Server
from headgate.operations import (
    claims,
    daemons,
    events,
    expectations,
    incidents,
    ingest,
    inventory,
    ledger,
    locks,
    queue,
    secrets,
    tokens,
    whole,
)
from headgate.operations.arguments import USUAL, By, Count, Reason
from headgate.operations.declaring import REQUIRED, About, AsTuple, Declarations, Idempotency, Operation, Page
from tests.http.conftest import Tokens

#: Every declaration.
DECLARED = (
    locks,
    claims,
    ledger,
    expectations,
    incidents,
    secrets,
    tokens,
    whole,
    events,
    ingest,
    queue,
    daemons,
    inventory,
)
OPERATIONS = [each for part in DECLARED for each in part.declared.operations]

shelves = Declarations("shelves")


@shelves.post("/shelves/{shelf}/tidy", "operate", repeat=Idempotency.KEY, answer="How many.", errors=(BadValue,))
def tidy(shelf: str, most: Annotated[int, About("At most.", ge=1)], reason: Reason, by: By = None) -> Count:  # type: ignore[empty-body] # a declaration has none
    """Tidy a shelf."""


@shelves.get("/shelves", "read", answer="By name.", whole=True, cursor="")
def names(after: str | None = None, limit: int = 2) -> Page[str]:  # type: ignore[empty-body] # a declaration has none
    """List shelves."""


@dataclass(frozen=True)
class Book:
    """What a method takes as one object."""

    title: str
    pages: int


@dataclass(frozen=True)
class Spot:
    """What a method returns as a tuple."""

    shelf: str
    since: datetime


@shelves.post(
    "/shelves/{shelf}/books", "operate", repeat=Idempotency.KEY, answer="Where it is.", packed={"book": Book},
    renamed={"on": "since"},
)  # fmt: skip
def place(  # type: ignore[empty-body] # a declaration has none
    shelf: str, title: str, pages: int, on: Annotated[str, About(parsed=datetime)],
    squeeze: Annotated[bool, About(forced=True)] = False,
) -> AsTuple[Spot]:  # fmt: skip
    """Place a book."""


class Shelves:
    """The method that a declared operation calls."""

    def place(self, name: str, book: Book, since: datetime, *, squeeze: bool = False) -> tuple[str, datetime]:
        return f"{name}: {book.title}, {book.pages}, {squeeze}", since

    def tidy(self, shelf: str, *, most: int, reason: str, by: str | None = None) -> int:
        return len(f"{shelf}{reason}{by}"[:most])

    def names(self) -> list[str]:
        return ["c", "a", "b"]


@remote("shelves", shelves)
class RemoteShelves(Shelves):
    """The same behind a service, without code of its own for the operation."""

    def __init__(self, connection: ServiceConnection) -> None:
        self.connection = connection


@pytest.fixture
def served(server: Server, gate: Gate) -> Iterator[None]:
    app = cast("Any", server)._server.config.app
    routes = Handlers(shelves).routes().made()
    cast("Any", gate).shelves = Shelves()
    app.router.routes[:0] = routes
    yield
    del app.router.routes[: len(routes)]
    del cast("Any", gate).shelves


@pytest.mark.usefixtures("served")
def test_an_operation_is_served_by_its_declaration_and_its_service(with_scopes: Tokens) -> None:
    operator, reader = with_scopes("operate"), with_scopes("read")
    body = {"most": 3, "reason": "dust"}
    assert operator.post("/v1/shelves/one/tidy", json=body).json() == {"count": 3}
    assert reader.post("/v1/shelves/one/tidy", json=body).status_code == 403
    wrong = operator.post("/v1/shelves/one/tidy", json={"most": 0, "reason": "", "other": 1})
    assert wrong.status_code == 422
    assert {each["where"] for each in wrong.json()["errors"]} == {"body.most", "body.reason", "body.other"}
    page = reader.get("/v1/shelves").json()
    assert page == {"items": ["a", "b"], "next": "b"}
    assert reader.get("/v1/shelves", params={"after": page["next"]}).json() == {"items": ["c"], "next": None}


@pytest.mark.usefixtures("served")
def test_the_client_requests_an_operation_by_its_declaration(server: Server, gate: Gate) -> None:
    with closing(ServiceConnection(server.url, gate.tokens.new("a client", ["read", "operate"]).token)) as connection:
        assert send(connection, tidy, shelf="a shelf? 50 % ä", most=3, reason="dust", by=None) == 3
        assert send(connection, names) == ["a", "b", "c"]  # Of all pages.
        assert send(connection, names, limit=1) == ["a"]
        with pytest.raises(BadValue, match="most 0 should be"):
            send(connection, tidy, shelf="one", most=0, reason="dust")


@pytest.mark.usefixtures("served")
def test_a_new_operation_takes_a_declaration_and_a_method_of_its_service(server: Server, gate: Gate) -> None:
    """With its command these are three files: routes, checks, OpenAPI and the remote client need no line."""
    with closing(ServiceConnection(server.url, gate.tokens.new("a client", ["read", "operate"]).token)) as connection:
        far, near = RemoteShelves(connection), Shelves()
        assert far.tidy("one", most=9, reason="dust") == 9
        assert sorted(far.names()) == sorted(near.names())
        with pytest.raises(BadValue, match="most 0 should be"):
            far.tidy("one", most=0, reason="dust")


@pytest.mark.usefixtures("served")
def test_an_object_in_python_is_fields_in_json(server: Server, gate: Gate, with_scopes: Tokens) -> None:
    day, book = datetime(2026, 11, 19, tzinfo=UTC), Book("Tides", 90)
    with closing(ServiceConnection(server.url, gate.tokens.new("a client", ["operate"]).token)) as connection:
        assert RemoteShelves(connection).place("one", book, day) == Shelves().place("one", book, day)
        with pytest.raises(NotAllowed, match="squeeze=True; it needs the scope admin:force"):
            RemoteShelves(connection).place("one", book, day, squeeze=True)
    body = {"title": "Tides", "pages": 90, "on": "2026-11-19T00:00:00Z", "squeeze": True}
    answer = with_scopes("operate", "admin:force").post("/v1/shelves/one/books", json=body)
    assert answer.json() == {"shelf": "one: Tides, 90, True", "since": "2026-11-19T00:00:00Z"}
    wrong = with_scopes("operate").post("/v1/shelves/one/books", json={**body, "on": "soon", "squeeze": False})
    assert (wrong.status_code, wrong.json()["detail"][:23]) == (422, "on 'soon' is not valid:")


def test_the_client_sends_requests_by_declarations_alone() -> None:
    """Paths, methods and keys are written in one place."""
    folder = Path(headgate.client.__file__).parent
    by_hand = re.compile(r"onnection\.(get|pages|send|once|upload)\(|\.request\(")
    others = [each for each in folder.glob("*.py") if each.name not in ("connection.py", "sending.py")]
    assert len(others) > 5
    assert [each.name for each in others if by_hand.search(each.read_text(encoding="utf-8"))] == []


def test_the_openapi_is_generated_from_the_declaration() -> None:
    document = description.openapi((Handlers(shelves).routes(),))
    told = document["paths"]["/v1/shelves/{shelf}/tidy"]["post"]
    assert (told["operationId"], told["description"], told["tags"]) == ("shelves_tidy", "Tidy a shelf.", ["shelves"])
    assert told["security"] == [{"HTTPBearer": ["operate"]}]
    assert "`bad-value`" in told["responses"]["422"]["description"]
    assert document["components"]["schemas"]["ShelvesTidy"]["required"] == ["most", "reason"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: f"{each.noun}.{each.name}")
def test_a_declaration_is_complete(operation: Operation) -> None:
    assert operation.sentence.endswith(".")
    assert operation.scopes
    assert operation.answer or operation.result is None
    assert set(operation.names) <= set(operation.arguments)
    assert operation.method != "GET" or operation.idempotency is Idempotency.SAFE
    if operation.idempotency is Idempotency.REQUEST:
        assert operation.arguments["request_id"].place == "header"
    assert repeat_of(operation).recorded == (operation.idempotency not in (Idempotency.SAFE, Idempotency.ONCE))


def defaults_of(gate: Gate, operation: Operation) -> dict[str, tuple[Any, Any]]:
    """By argument: the declared default, and the default of the method that is called, where both have one."""
    method: Any = gate
    for part in operation.call.split("."):
        method = getattr(method, part, None)
    own = {} if method is None else signature(method).parameters
    pairs = {name: (each.default, own[name].default) for name, each in operation.arguments.items() if name in own}
    # None and () leave the choice to the service. Page sizes have their own defaults.
    unsaid = [REQUIRED, None, (), USUAL if operation.paged else None]
    return {name: pair for name, pair in pairs.items() if not any(each in unsaid for each in pair)}


def test_a_default_is_the_same_for_a_caller_of_the_library_and_of_the_service() -> None:
    with headgate.connect("sqlite://") as gate:
        found = {(each.call, name): pair for each in OPERATIONS for name, pair in defaults_of(gate, each).items()}
    assert len(found) > 30
    assert {place: pair for place, pair in found.items() if pair[0] != pair[1]} == {}


def test_every_route_of_the_api_is_declared() -> None:
    served = [each for part in API for each in part.declared if each.path.startswith("/v1/")]
    assert [each.path for each in served if not isinstance(each.call, Served)] == []
    assert len(served) == len(OPERATIONS)


def test_declarations_are_read_without_a_framework() -> None:
    code = (
        "import sys, headgate.operations.locks, headgate.operations.claims;"
        "heavy = {'fastapi', 'pydantic', 'starlette', 'sqlalchemy', 'httpx2'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
