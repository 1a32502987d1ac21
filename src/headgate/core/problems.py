"""Errors as JSON: the word for each kind, and its data, which are its constructor's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

from headgate.core import errors
from headgate.core.errors import HeadgateError
from headgate.core.ledger.verdicts import Verdict
from headgate.core.locks.model import Blocker, Request
from headgate.core.values.wire import parse, plain

#: The prefix of a problem document's type; the error's word follows.
TYPE = "urn:headgate:"
#: Types that the error tree names without importing them.
_NOUNS = {"Sequence": Sequence, "Request": Request, "Blocker": Blocker, "Verdict": Verdict}


def word_of(kind: type[HeadgateError]) -> str:
    """LockRefused is lock-refused."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).lstrip("-")


@cache
def _kinds() -> Mapping[str, type[HeadgateError]]:
    known = (kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HeadgateError))
    return {word_of(kind): kind for kind in known}


def _shapes(kind: type[HeadgateError]) -> Mapping[str, Any]:
    """The constructor's parameters: names and types."""
    if "__init__" not in vars(kind):
        return {}
    hints = get_type_hints(kind.__init__, localns=_NOUNS)
    return {name: shape for name, shape in hints.items() if name != "return"}


def data_of(error: HeadgateError) -> dict[str, Any]:
    """The data of an error in JSON types. Arguments that only complete its text are left out."""
    return {name: plain(getattr(error, name)) for name in _shapes(type(error)) if hasattr(error, name)}


def error_of(word: str, detail: str, data: Mapping[str, Any]) -> HeadgateError | None:
    """The error with that word, text and data; None for an unknown word."""
    kind = _kinds().get(word)
    if kind is None:
        return None
    shapes = _shapes(kind)
    error = kind(**{name: parse(shape, data.get(name)) for name, shape in shapes.items()}) if shapes else kind(detail)
    error.args = (detail,)
    return error
