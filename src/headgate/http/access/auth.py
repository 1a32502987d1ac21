"""Authentication and authorisation: an API token in the Authorization header, or the browser session that it started;
scopes on every route.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from starlette.concurrency import run_in_threadpool

from headgate.calls.actor import act_as
from headgate.calls.idempotency import own_ids, scoped_id
from headgate.core.access.owners import Actor
from headgate.core.access.scopes import SCOPES, ApiToken, Reach
from headgate.core.access.sights import Sight
from headgate.core.errors import NotAllowed, UnknownName
from headgate.core.locks.model import Lock
from headgate.core.values.names import NAME_LENGTH, check_name, check_reason
from headgate.core.values.wire import plain
from headgate.gate import Gate
from headgate.http.access import sessions
from headgate.http.service import Service
from headgate.service.access.sessions import BrowserSession
from headgate.service.access.tokens import CREATE

#: The caller's name for itself.
CLIENT_HEADER = "Headgate-Client"
#: The key for a caller's token id in the scope of its request.
ADMITTED = "headgate.token"
#: Methods that change nothing.
SAFE = ("GET", "HEAD")
#: The reason why a caller with the scope `admin:force` overrides another principal; percent-encoded UTF-8.
OVERRIDE_HEADER = "Headgate-Override"
#: The request that submits a batch.
SUBMITS = ("POST", "/v1/batches")
T = TypeVar("T")
_BEARER = HTTPBearer(auto_error=False, description="An API token, `hg_…`, created with `headgate token new`.")


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request."""

    token: ApiToken
    #: The requesting process, in its own words.
    process: str
    #: The form token of a signed-in browser, and the digest of its session; empty for other callers.
    form_key: str = ""
    session: str = ""

    @property
    def principal(self) -> str:
        """The owner of what this caller acquires, and of its idempotency keys and request ids."""
        return self.token.principal

    def request_id(self, key: str | None, request: str | None) -> str | None:
        """Return the id by which the store recognises this request, from its Idempotency-Key or its Headgate-Request;
        None if it has neither. The same text from another principal yields another id.
        """
        given = key if key is not None else request
        return None if given is None else scoped_id(self.principal, given)

    def shown(self, value: Any) -> Any:
        """Return a value in JSON types, with this caller's request ids in their original form."""
        return own_ids(self.principal, plain(value))

    def seen(self, lock: Lock) -> Lock:
        """A lock as this caller sees it: the token is only shown to its owner, and to an operator who may override the
        owner.
        """
        own = lock.principal == self.principal or self.reach.has("admin:force")
        return lock if own else replace(lock, token=0)

    @property
    def reach(self) -> Reach:
        """Return what the token's scopes allow."""
        return self.token.reach

    def by(self, given: str | None = None) -> str:
        """The name that is recorded with the caller's actions. It contains the token's name, except for an admin, who
        may act for others.
        """
        said = check_name("by", given) if given is not None else self.process
        if self.reach.unlimited:
            return said or self.token.name
        return f"{self.token.name} ({said})"[:NAME_LENGTH] if said else self.token.name

    def acting(self, override: str | None) -> Actor:
        """The acting caller for the store; `override`: the reason for overriding owners, from the header."""
        if override is None:
            return Actor(self.principal)
        if not self.reach.has("admin:force"):
            raise NotAllowed(
                f"the API token of {self.token.name} may not override an owner; this needs the scope admin:force",
                "admin:force",
            )
        return Actor(self.principal, check_reason(unquote(override)))

    def must_reach(self, word: str, name: str) -> None:
        """Raises NotAllowed if the scope is limited to other names."""
        if not self.reach.covers(word, name):
            raise NotAllowed(f"the API token of {self.token.name} has no access to {name}", f"{word}:{name}")

    def must_see(self, noun: str, word: str, name: str, shown: str | None = None) -> None:
        """UnknownName when the scope is limited to others: their names are not revealed. A caller that may read sees
        all.
        """
        if not (self.reach.has("read") or self.reach.covers(word, name)):
            raise UnknownName(noun, name if shown is None else shown)


async def authenticate(
    request: Request,
    scopes: SecurityScopes,
    _given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)] = None,
) -> Caller:
    """The same for the framework, which also generates the OpenAPI."""
    return await admit(request, scopes.scopes)


async def admit(request: Request, words: Sequence[str]) -> Caller:
    """The caller, if its token has one of the route's scopes. Checked before a body is read, so that refused callers
    use no memory. The proof of a form is checked after that: `prove_form`.
    """
    text = _bearer(request)
    who = await _by_token(request, text) if text else await _by_session(request)
    service_of(request).pace.take(who.token.id, _address(request))
    request.scope[ADMITTED] = who.token.id
    request.scope["headgate.caller"] = who
    request.scope["headgate.sight"] = sight_on(who.reach, words)
    if not any(who.reach.has(word) for word in words):
        wanted = " or ".join(words)
        raise NotAllowed(
            f"the API token of {who.token.name} does not allow this; it needs the scope {wanted}", words[0]
        )
    if (request.method, request.url.path) == SUBMITS:
        service_of(request).submissions.take(who.token.id, _address(request))
    act_as(who.acting(request.headers.get(OVERRIDE_HEADER)))
    return who


def sight_on(reach: Reach, words: Sequence[str]) -> Sight | None:
    """What a caller may see on a route with these scopes; None: everything. An unlimited scope shows everything, and a
    route that accepts any scope shows only the caller.
    """
    if "read" not in words or set(SCOPES) - {"admin"} <= set(words) or any(word in reach.scopes for word in words):
        return None
    return reach.sight


async def prove_form(request: Request, who: Caller, *, is_file: bool = False) -> None:
    """NotAllowed unless a request of a signed-in browser comes from one of our forms. A file is not a form: its body is
    not inspected.
    """
    if who.form_key and request.method not in SAFE:
        await sessions.check_own_form(request, who.form_key, is_file=is_file)


def _bearer(request: Request) -> str:
    """The token in the header; empty: none."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


async def _by_token(request: Request, text: str) -> Caller:
    tokens = service_of(request).gate.tokens
    token = tokens.recall(text)
    if token is None:
        token = await _look_up(request, tokens.prove, text)
    process = request.headers.get(CLIENT_HEADER, "")[:NAME_LENGTH]
    return Caller(token, process if process.isprintable() and "/" not in process else "")


async def _session(request: Request) -> BrowserSession:
    given = sessions.id_of(request)
    if not given:
        raise NotAllowed(
            "there is no API token: set HEADGATE_API_TOKEN (headgate lock run and job run pass it on with "
            "--pass-api-token), or send it in the header Authorization, behind the word Bearer. Create one on the "
            f"service's machine with: {CREATE}"
        )
    return await _look_up(request, service_of(request).gate.sessions.find, given)


async def _look_up(request: Request, prove: Callable[[str], T], text: str) -> T:
    _take_wrong(request, cost=0)  # A refused caller uses no thread.
    return await run_in_threadpool(look_up, request, prove, text)


def look_up(request: Request, prove: Callable[[str], T], text: str) -> T:
    """The caller that the store knows by a text; NotAllowed: nobody. Wrong ones are counted by address, because each
    one needs a query of the store: TooMany.
    """
    _take_wrong(request, cost=0)
    try:
        return prove(text)
    except NotAllowed:
        _take_wrong(request)
        raise


def _take_wrong(request: Request, cost: int = 1) -> None:
    address = _address(request)
    service_of(request).pace.take(f"wrong from {address}", address, cost)


async def _by_session(request: Request) -> Caller:
    session = await _session(request)
    if request.method not in SAFE:
        sessions.check_own_origin(request)
    return Caller(session.token, "", session.form_key, session.digest)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def service_of(request: Request) -> Service:
    """Return the service of a request's app."""
    service: Service = request.app.state.service
    return service


def is_caller(dependency: Any) -> bool:
    """Whether a dependency of a route is its caller."""
    return dependency is authenticate


def provided(dependency: Any) -> Callable[[Request], Any]:
    """Passes its service, or its gate, to a route, without the framework."""
    return {_its_service: _whole_service, _its_feed: service_of, _its_gate: _gate_of}[dependency]


def _gate_of(request: Request) -> Gate:
    sight: Sight | None = request.scope.get("headgate.sight")
    service = service_of(request)
    return service.gate if sight is None else service.gate.narrowed(sight)


def _whole_service(request: Request) -> Service:
    """NotAllowed for a caller with a limited `read`: the data of a service is not divided into namespaces."""
    if request.scope.get("headgate.sight") is not None:
        raise NotAllowed(
            "an API token whose scope `read` is limited cannot request this; it needs the unlimited scope read", "read"
        )
    return service_of(request)


# Other dependencies than coroutines would be called in a thread each.
async def _its_service(request: Request) -> Service:
    return _whole_service(request)


async def _its_feed(request: Request) -> Service:
    return service_of(request)


async def _its_gate(request: Request) -> Gate:
    return _gate_of(request)


def needs(*words: str) -> Any:
    """The caller, who has one of these scopes."""
    return Security(authenticate, scopes=list(words))


TheGate = Annotated[Gate, Depends(_its_gate)]
#: For routes that show each caller what it may see.
TheFeed = Annotated[Service, Depends(_its_feed)]
TheService = Annotated[Service, Depends(_its_service)]
Reader = Annotated[Caller, needs("read")]
Operator = Annotated[Caller, needs("operate")]
Forcer = Annotated[Caller, needs("admin:force")]
Anybody = Annotated[Caller, needs(*SCOPES)]
