"""Declarations in the framework's terms: signatures, models of bodies, and answers.

Answers are the core's own nouns, described by the comments in their code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import GenericAlias, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, create_model

from headgate.core.problems import word_of
from headgate.http.access.auth import Caller, TheFeed, TheGate, needs
from headgate.http.errors import PROBLEMS, status_of_kind
from headgate.operations.declaring import (
    Argument,
    Idempotency,
    Named,
    Operation,
    Page,
    Stream,
    arguments_of,
    bare,
    is_part,
    marks,
    without_none,
)

T = TypeVar("T")
Responses = dict[int | str, dict[str, Any]]
#: Types whose values are never coerced in a body, alone or as a choice.
SCALARS = frozenset({str, int, float, bool})
#: The modules that define nouns.
NOUNS = ("headgate.core.", "headgate.operations.")
#: The OpenAPI of a body that is a file.
FILE_BODY = {
    "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
_COMMENT = re.compile(r"^ {4}#: (.*(?:\n {4}#: .*)*)\n {4}(\w+):", re.MULTILINE)
_COMMENT_BESIDE = re.compile(r"^ {4}(\w+): .*?  #: (.+)$", re.MULTILINE)

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=200,
        description="A repeat within 24 hours returns the same response and has no second effect.",
    ),
]  # fmt: skip
RequestId = Annotated[
    str | None,
    Header(
        alias="Headgate-Request", min_length=1, max_length=200,
        description="The caller's own id of this request. A repeat returns the same result while that is held.",
    ),
]  # fmt: skip


class RequestBody(BaseModel):
    """Request body. Unknown fields are rejected; values are never coerced."""

    model_config = ConfigDict(extra="forbid", strict=True)


class BodyOfNouns(RequestBody):
    """The same for nouns inside it: strictly, a JSON list is not a tuple, and a word is not an enumeration member."""

    model_config = ConfigDict(strict=False)


class PageDocument(BaseModel, Generic[T]):
    """One page of a list: every list has this form."""

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Its name in the OpenAPI."""
        return super().model_parametrized_name(params).replace(cls.__name__, "Page")

    items: list[T]
    next: str | None = Field(description="Cursor: send it as `after` for the next page. Null on the last page.")


class ProblemDocument(BaseModel):
    """The problem in the format of RFC 9457, with the error's own data as further members."""

    model_config = ConfigDict(extra="allow", title="Problem")
    type: str = Field(examples=["urn:headgate:lock-refused"])
    title: str
    status: int
    detail: str


# ---------------------------------------------------------------- requests


def signature(operation: Operation) -> inspect.Signature:
    """The arguments that a route reads from a request."""
    found = {
        "request": Request,
        "service": TheFeed,
        "gate": TheGate,
        "who": Annotated[Caller, needs(*operation.scopes)],
    }
    parameters = [_parameter(name, kind) for name, kind in found.items()]
    body = [each for each in operation.arguments.values() if each.place == "body"]
    if body:
        parameters.append(_parameter("body", _body(operation, body)))
    for each in operation.arguments.values():
        if each.place in ("path", "query"):
            parameters.append(_parameter(each.name, _constrained(each), each.default))
        elif each.about.header:
            mark = Header(alias=each.about.header, description=each.about.text)
            parameters.append(_parameter(each.name, Annotated[each.shape, mark], each.default))
        elif each.place == "header":
            parameters += [_parameter("idempotency_key", Key, None), _parameter("headgate_request", RequestId, None)]
    return inspect.Signature(parameters, return_annotation=Response)


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _body(operation: Operation, arguments: list[Argument]) -> Any:
    """The model of a body."""
    name = f"{operation.noun.title()}{operation.name.title()}".replace("_", "").replace("-", "").replace(" ", "")
    return _model_of(name, operation.sentence.partition("\n")[0], arguments)


def _model_of(name: str, text: str, arguments: list[Argument]) -> Any:
    """A model that rejects unknown fields and never coerces values."""
    found: dict[str, Any] = {
        each.name: (_constrained(each), ... if each.required else each.default) for each in arguments
    }
    base = BodyOfNouns if any(_has_noun(each.shape) for each in arguments) else RequestBody
    return create_model(name, __base__=base, __doc__=text, **found)


def _has_noun(shape: Any) -> bool:
    """Whether a value is a noun of the core, which JSON represents as an object or a word."""
    is_noun = isinstance(shape, type) and (issubclass(shape, Enum) or (is_dataclass(shape) and not is_part(shape)))
    return is_noun or any(_has_noun(each) for each in get_args(shape))


def _with_models(shape: Any) -> Any:
    """A type in which parts defined by declarations are models."""
    if is_part(shape):
        return _model_of(shape.__name__, shape.__doc__ or "", arguments_of(shape))
    parts, origin = get_args(shape), get_origin(shape)
    if origin is not dict or not is_part(parts[1]):
        return shape
    return GenericAlias(dict, (parts[0], _with_models(parts[1])))


def _constrained(argument: Argument) -> Any:
    """The type of an argument with its limits, in the framework's terms."""
    about = argument.about
    limits = {
        name: getattr(about, name)
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
        if getattr(about, name) is not None
    }
    told: dict[str, Any] = {"description": about.text} if about.text else {}
    if about.example is not None:
        told["examples"] = [about.example]
    present = without_none(argument.shape)
    if present is float:
        limits["allow_inf_nan"] = False
    if argument.place == "body" and isinstance(present, type) and present in SCALARS:
        limits["strict"] = True
    inner = _strict_choice(present) if argument.place == "body" else _with_models(present)
    marks_by_place: dict[str, Any] = {"body": Field, "query": Query, "path": Path}
    mark = marks_by_place[argument.place]
    if present is argument.shape:
        return Annotated[inner, mark(**told, **limits)]
    return Annotated[(Annotated[inner, Field(**limits)] if limits else inner) | None, mark(**told)]


def _strict_choice(shape: Any) -> Any:
    """A type in a body; the scalars of a choice are not coerced either."""
    parts = get_args(shape)
    if get_origin(shape) not in (Union, UnionType) or not SCALARS.issuperset(parts):
        return _with_models(shape)
    return Union[tuple(Annotated[each, Field(strict=True)] for each in parts)]  # noqa: UP007 - made of a tuple


# ---------------------------------------------------------------- answers


def answers(operation: Operation) -> Responses:
    """The answers of an operation."""
    result = operation.result
    found: Responses = {}
    if result is None:
        found[204] = {"description": operation.answer or "Done."}
    elif result is Stream:
        found[200] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": operation.answer}
    else:
        found[operation.status] = {"model": _model(result), "description": operation.answer}
    for status, shape, text in operation.or_answers:
        found[status] = {"model": _model(shape), "description": text}
    if operation.nothing:
        found[204] = {"description": operation.nothing}
    if operation.idempotency is Idempotency.FILE:
        found[507] = {**PROBLEMS[503], "description": "No space for the file."}
    for status in {status_of_kind(each) for each in operation.errors}:
        names = [f"`{word_of(each)}`" for each in operation.errors if status_of_kind(each) == status]
        told = PROBLEMS[status]
        found[status] = {**told, "description": f"{told['description']} {', '.join(names)}"}
    return found


def _model(shape: Any) -> Any:
    """The OpenAPI of a result."""
    inner = bare(shape)
    if inner is not (present := without_none(inner)):
        return _model(present)
    if get_origin(inner) is Page:
        inner = PageDocument[bare(get_args(inner)[0])]  # type: ignore[misc] # made here
    named = next((each.name for each in marks(shape) if isinstance(each, Named)), "")
    if named:
        fields: dict[str, Any] = {named: (inner, ...)}
        return create_model(named.capitalize(), **fields)
    return inner


def special(operation: Operation) -> Mapping[str, Any]:
    """The OpenAPI of operations whose body is a file, or whose answer is a stream."""
    if operation.result is Stream:
        return {"response_class": StreamingResponse}
    return {"openapi_extra": FILE_BODY} if operation.idempotency is Idempotency.FILE else {}


def comments() -> Mapping[str, Mapping[str, str]]:
    """The comment of every field of the nouns, by class, for the OpenAPI."""
    found: dict[str, dict[str, str]] = {}
    for module in [each for name, each in sys.modules.items() if name.startswith(NOUNS)]:
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and is_dataclass(kind) and kind.__module__ == module.__name__:
                source = inspect.getsource(kind)
                above = {field: text.replace("\n    #: ", " ") for text, field in _COMMENT.findall(source)}
                found.setdefault(name, {}).update(above, **dict(_COMMENT_BESIDE.findall(source)))
    return found
