"""Values as JSON has them, and back: what goes over the wire is the domain's own nouns."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_writers: dict[type, Callable[[Any], Any]] = {}


def plain(value: Any) -> Any:
    """The value in JSON's own types; times in RFC 3339, UTC."""
    kind = type(value)
    if kind not in _writers:  # Found once: every answer is full of them.
        _writers[kind] = _writer(kind)
    return _writers[kind](value)


def _writer(kind: type) -> Callable[[Any], Any]:
    """What makes values of this type plain."""
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
        return lambda value: {name: plain(getattr(value, name)) for name in names}
    if issubclass(kind, Mapping):
        return lambda value: {str(key): plain(each) for key, each in value.items()}
    if issubclass(kind, list | tuple | set | frozenset):
        return lambda value: [plain(each) for each in value]
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, datetime):
        return rfc3339
    return _as_it_is if issubclass(kind, str | int | float | types.NoneType) else str


def _as_it_is(value: Any) -> Any:
    return value


def rfc3339(moment: datetime) -> str:
    """2026-11-15T04:50:00.123456Z"""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse(shape: Any, value: Any) -> Any:
    """The value that `plain` made of one of this shape: a dataclass, a number, text, or something made of them."""
    origin = get_origin(shape)
    if shape is Any or (value is None and shape is not None and origin in (Union, types.UnionType)):
        return value
    if origin in (Union, types.UnionType):
        return parse(next(each for each in get_args(shape) if each is not type(None)), value)
    if origin is tuple:
        return _parse_tuple(get_args(shape), value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: parse(get_args(shape)[1], each) for key, each in value.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [parse(get_args(shape)[0], each) for each in value]
    return _parse_single(shape, value)


def _parse_single(shape: Any, value: Any) -> Any:
    if is_dataclass(shape):
        kind: Any = shape
        known = _shapes(kind)
        return kind(**{name: parse(known[name], each) for name, each in value.items() if name in known})
    if shape is datetime:
        return datetime.fromisoformat(value)
    if isinstance(shape, type) and issubclass(shape, Enum | float):
        return shape(value)
    return value


def _parse_tuple(shapes: tuple[Any, ...], value: Sequence[Any]) -> tuple[Any, ...]:
    if len(shapes) == 2 and shapes[1] is Ellipsis:
        return tuple(parse(shapes[0], each) for each in value)
    return tuple(parse(shape, each) for shape, each in zip(shapes, value, strict=True))


@lru_cache
def _shapes(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}
