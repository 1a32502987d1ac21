"""The definition of an operation: everything that a service, its documentation and a remote client know about it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from headgate.core.errors import HeadgateError

T = TypeVar("T")
#: An argument without a default.
REQUIRED = inspect.Parameter.empty
_IN_PATH = re.compile(r"\{(\w+)\}")


class Idempotency(Enum):
    """The effect of repeating a request, which determines how a client sends a request whose answer was lost."""

    #: It changes nothing, or a repeat has no further effect. The client sends it again.
    SAFE = "safe"
    #: A repeat changes nothing: the token of a grant proves the caller. The client sends it again.
    PROVEN = "proven"
    #: The store recognises the request by its id and returns the same grant. The client sends its request id.
    REQUEST = "request"
    #: It takes effect once for each Idempotency-Key. The client adds its own key.
    KEY = "key"
    #: The same, but its answer contains a secret, which is not stored: a repeat is refused, naming what was created.
    SECRET = "secret"  # noqa: S105 - a word
    #: The same, and its body is a file.
    FILE = "file"
    #: A repeat is refused although the first request succeeded. The client sends it once.
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class About:
    """The meaning of an argument, and its valid values. The names of the limits are those of JSON validators."""

    text: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    example: Any = None
    #: The header in which it is sent, if it has its own.
    header: str = ""
    #: query or header; caller: it is not sent, the service adds it; empty: depends on the method, see
    #: Operation.arguments.
    place: str = ""
    #: It is stored for display: a client masks the secrets that its process knows before sending it.
    kept: bool = False
    #: The type that the service makes of the value, which has the form of the answers; None: the declared type.
    parsed: Any = None
    #: A value that needs the scope `admin:force`, whatever the operation itself needs.
    forced: Any = None
    #: The value that the service fills in: `by` and `worker` name the caller, `request` is the id of the request.
    caller: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation."""

    name: str
    #: Its type, without annotations.
    shape: Any
    default: Any
    about: About
    #: path, query, body, header or caller.
    place: str

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, in its order."""

    items: Sequence[T]
    #: Where to continue; null on the last page.
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """The name under which a single value is returned: {"count": 3}."""

    name: str


class Stream:
    """Server-sent events, one after another, until one side ends the stream."""


class Onlooker:
    """Marks a result as visible to others: without the values that only its holder may know."""


#: A value as visible to callers that do not hold it.
Seen = Annotated[T, Onlooker()]


class Tupled:
    """Marks a class whose fields are a tuple in Python, in that order, and an object in JSON."""


#: A result that the service returns as a tuple.
AsTuple = Annotated[T, Tupled()]


@dataclass(frozen=True, slots=True)
class Limited:
    """A scope that may be limited to some names, and the argument that has to be one of them."""

    scope: str
    argument: str
    #: The noun that is reported as unknown to callers whose scope is limited to other names; empty: the refusal says
    #: that their token has no access.
    hidden: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation."""

    #: The page that lists it: locks, ledger, …
    noun: str
    #: The declaring function.
    declared: Callable[..., Any] = field(repr=False)
    method: str
    #: The path below /v1, with the names of arguments in braces.
    path: str
    #: The scopes, of which a caller needs one.
    scopes: tuple[str, ...]
    idempotency: Idempotency
    #: A short description of the answer.
    answer: str = ""
    #: The meaning of an answer without content, if the result may be None.
    nothing: str = ""
    #: The HTTP status of the answer.
    status: int = 200
    #: The scope that may be limited to names.
    limit: Limited | None = None
    #: The refusals and losses that a caller has to expect.
    errors: tuple[type[HeadgateError], ...] = ()
    #: Whether it takes one short transaction.
    quick: bool = False
    #: The service of a gate that executes it, and its method: `locks.break_lock`.
    call: str = ""
    #: Arguments that the service always adds.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    #: Arguments with another name in the method: its name, by the declared one.
    renamed: Mapping[str, str] = field(default_factory=dict)
    #: Arguments that the method takes as one object: its name there, and its class.
    packed: Mapping[str, type] = field(default_factory=dict)
    #: The attributes by which items are ordered, and whose last values start the next page; empty: the item itself.
    cursor: str | Callable[[Any], str] = "id"
    #: The service returns the whole list, which the answer cuts into pages.
    whole: bool = False
    #: An operation whose arguments it takes in addition to its own, except those in its path.
    like: Operation | None = None
    #: Other success answers: status, result, and meaning.
    or_answers: tuple[tuple[int, Any, str], ...] = ()

    @property
    def name(self) -> str:
        """Its name within the noun."""
        return self.declared.__name__

    @property
    def sentence(self) -> str:
        """What it does."""
        return inspect.getdoc(self.declared) or ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The arguments in its path, in that order."""
        return tuple(_IN_PATH.findall(self.path))

    @cached_property
    def arguments(self) -> Mapping[str, Argument]:
        """By name. Those that the path does not name are in the query of GET and DELETE, else in the body."""
        signature = inspect.signature(self.declared)
        usual = "query" if self.method in ("GET", "DELETE") else "body"
        found = {}
        for name, parameter in signature.parameters.items():
            shape, about = _unpacked(self._hints[name])
            place = "path" if name in self.names else about.place or ("header" if about.header else usual)
            found[name] = Argument(name, shape, parameter.default, about, place)
        others = {} if self.like is None else self.like.arguments
        return {name: each for name, each in others.items() if each.place != "path"} | found

    @cached_property
    def forced(self) -> Mapping[str, Any]:
        """The values that need the scope `admin:force`, by argument."""
        return {name: each.about.forced for name, each in self.arguments.items() if each.about.forced is not None}

    @cached_property
    def result(self) -> Any:
        """The type of its result; None: nothing."""
        shape = self._hints["return"]
        return None if shape is type(None) else shape

    @cached_property
    def part(self) -> str:
        """The name under which its result is returned; empty: the result is the whole answer."""
        return part_of(self.result)

    @cached_property
    def paged(self) -> bool:
        """Whether it returns a list in pages."""
        return get_origin(bare(self.result)) is Page

    @cached_property
    def shape(self) -> Any:
        """The type of its result; for a list in pages, of each item."""
        return get_args(bare(self.result))[0] if self.paged else self.result

    @cached_property
    def record(self) -> Any:
        """The class of the result, or of each item, if it is a tuple in Python; None: it is not."""
        shape = without_none(self.shape)
        return bare(shape) if any(isinstance(each, Tupled) for each in marks(shape)) else None

    @cached_property
    def answers(self) -> tuple[tuple[str, Any], ...]:
        """The success answers: the name under which each is returned (empty: it is the whole answer), and its type."""
        return tuple((part_of(each), each) for each in (self.result, *(shape for _, shape, _ in self.or_answers)))

    @cached_property
    def has_body(self) -> bool:
        """Whether arguments are sent in a body."""
        return any(each.place == "body" for each in self.arguments.values())

    @property
    def waits(self) -> bool:
        """Whether a caller may ask it to wait."""
        return "wait" in self.arguments

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.declared, include_extras=True)


class Declarations:
    """The operations of one noun, in the order in which they are listed."""

    def __init__(self, noun: str, service: str = "") -> None:
        self.noun = noun
        self.operations: list[Operation] = []
        self._service = service or noun

    def get(self, path: str, *scopes: str, **more: Any) -> Callable[[Callable[..., Any]], Operation]:
        """Declare an operation that changes nothing."""
        return self._declare("GET", path, scopes, Idempotency.SAFE, more)

    def post(
        self, path: str, *scopes: str, repeat: Idempotency, **more: Any
    ) -> Callable[[Callable[..., Any]], Operation]:
        """Declare an operation of the method POST."""
        return self._declare("POST", path, scopes, repeat, more)

    def put(self, path: str, *scopes: str, **more: Any) -> Callable[[Callable[..., Any]], Operation]:
        """Declare an operation that puts something into the state given by the caller."""
        return self._declare("PUT", path, scopes, Idempotency.SAFE, more)

    def patch(self, path: str, *scopes: str, **more: Any) -> Callable[[Callable[..., Any]], Operation]:
        """Declare an operation that changes part of something."""
        return self._declare("PATCH", path, scopes, Idempotency.SAFE, more)

    def delete(
        self, path: str, *scopes: str, repeat: Idempotency = Idempotency.ONCE, **more: Any
    ) -> Callable[[Callable[..., Any]], Operation]:
        """Declare an operation that removes something."""
        return self._declare("DELETE", path, scopes, repeat, more)

    def _declare(
        self, method: str, path: str, scopes: tuple[str, ...], repeat: Idempotency, more: dict[str, Any]
    ) -> Callable[[Callable[..., Any]], Operation]:
        def declare(function: Callable[..., Any]) -> Operation:
            call = more.pop("call", "") or f"{self._service}.{function.__name__}"
            operation = Operation(self.noun, function, method, path, scopes, repeat, call=call, **more)
            self.operations.append(operation)
            return operation

        return declare


def bare(shape: Any) -> Any:
    """A type without its annotations."""
    return get_args(shape)[0] if get_origin(shape) is Annotated else shape


def marks(shape: Any) -> tuple[Any, ...]:
    """The annotation of a type."""
    return tuple(shape.__metadata__) if get_origin(shape) is Annotated else ()


def part_of(shape: Any) -> str:
    """The name under which a result of this type is returned; empty: it is the whole answer."""
    return next((each.name for each in marks(without_none(shape)) if isinstance(each, Named)), "")


def is_part(shape: Any) -> bool:
    """Whether a type is a part of a body, defined in a declaration."""
    return is_dataclass(shape) and isinstance(shape, type) and shape.__module__.startswith(__package__ or "")


def arguments_of(kind: Any) -> list[Argument]:
    """The fields of such a part, as arguments in a body."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for each in fields(kind):
        shape, about = _unpacked(hints[each.name])
        found.append(Argument(each.name, shape, REQUIRED if each.default is MISSING else each.default, about, "body"))
    return found


def without_none(shape: Any) -> Any:
    """The type of a value that may be missing."""
    inner = bare(shape)
    rest = [each for each in get_args(inner) if each is not type(None)]
    return rest[0] if get_origin(inner) in (Union, UnionType) and len(rest) == 1 else shape


def _unpacked(shape: Any) -> tuple[Any, About]:
    """A type without its annotation, and the annotation."""
    inner = without_none(shape)
    about = next((each for each in (*marks(shape), *marks(inner)) if isinstance(each, About)), About())
    return (bare(shape) if inner is shape else bare(inner) | None), about
