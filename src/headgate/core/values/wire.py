"""Conversion of values to JSON and back: the wire carries the domain's own nouns."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
#: Marks a dataclass field that only concerns this process, and is not serialised.
INTERNAL: Mapping[str, bool] = {"internal": True}
_writers: dict[type, Callable[[Any], Any]] = {}


def plain(value: Any) -> Any:
    """The value in JSON types; times in RFC 3339, UTC."""
    kind = type(value)
    if kind not in _writers:  # Cached, since every answer contains many of them.
        _writers[kind] = _writer(kind)
    return _writers[kind](value)


def _writer(kind: type) -> Callable[[Any], Any]:
    """The function that converts values of this type."""
    if is_dataclass(kind):
        names = [each.name for each in fields(kind) if not each.metadata.get("internal")]
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
    """The value from which `plain` made this, given its shape: a dataclass, a number, text, or a composite of them."""
    return _reader(shape)(value)


@cache
def _reader(shape: Any) -> Callable[[Any], Any]:
    """The function that reads values of this shape; cached, since lists contain many of them."""
    origin, parts = get_origin(shape), get_args(shape)
    if origin is Annotated:
        return _reader(parts[0])
    if origin in (Union, types.UnionType):
        kinds = [each for each in parts if each is not type(None)]
        return _reader_or_none(_reader(kinds[0]) if len(kinds) == 1 else _reader_of_several(kinds))
    if origin is tuple:
        return _tuple_reader(parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read_each = _reader(parts[1])
        return lambda value: {key: read_each(each) for key, each in value.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        read_item = _reader(parts[0])
        return lambda value: [read_item(each) for each in value]
    return _single_reader(shape)


def _reader_or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _reader_of_several(kinds: Sequence[Any]) -> Callable[[Any], Any]:
    """Of several dataclasses, the one that has most fields of the document; JSON types are unchanged."""
    if not all(is_dataclass(kind) for kind in kinds):
        return _as_it_is
    names = {kind: {each.name for each in fields(kind)} for kind in kinds}
    return lambda value: _reader(max(kinds, key=lambda kind: len(names[kind] & value.keys())))(value)


def _single_reader(shape: Any) -> Callable[[Any], Any]:
    if is_dataclass(shape):
        return _dataclass_reader(shape)
    if shape is datetime:
        return datetime.fromisoformat
    if isinstance(shape, type) and issubclass(shape, Enum | float):
        return shape
    return _as_it_is


def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    readers: dict[str, Callable[[Any], Any]] = {}

    def read(value: Any) -> Any:
        if not readers:  # Built on first use, because a shape may contain itself.
            hints = get_type_hints(kind)
            readers.update({each.name: _reader(hints[each.name]) for each in fields(kind)})
        return kind(**{name: readers[name](each) for name, each in value.items() if name in readers})

    return read


def _tuple_reader(parts: tuple[Any, ...]) -> Callable[[Any], Any]:
    readers = [_reader(each) for each in parts if each is not Ellipsis]
    if len(parts) == 2 and parts[1] is Ellipsis:
        return lambda value: tuple(readers[0](each) for each in value)
    return lambda value: tuple(read(each) for read, each in zip(readers, value, strict=True))
