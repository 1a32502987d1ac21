"""A statement: reviewed text with a name, its parameters written `:name`, lists written `:name*`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

#: A row from a driver: the statement knows the types of its columns.
Row = tuple[Any, ...]
_LIST = re.compile(r"in \(:(\w+)\*\)")
#: A statement with more parameters than this, lists included, is rendered each time.
MOST_WRITTEN = 64
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)(\*?)")


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """SQL text. Words in braces, such as `{now}`, are filled in by the dialect."""

    #: What it does, in one sentence.
    sentence: str
    #: The text.
    text: str

    #: Whether it compares or writes a principal.
    acts: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "acts", ":principal" in self.text or "{owned}" in self.text)


def spread(text: str, params: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Write each list parameter out as single ones: `:keys*` becomes `:keys_0, :keys_1`. Nothing is in an empty one,
    which MariaDB does not take.
    """
    flat: dict[str, object] = {}

    def write_out(match: re.Match[str]) -> str:
        name, many = match.groups()
        if not many:
            flat[name] = params[name]
            return match.group()
        values = cast("Sequence[object]", params[name])
        names = [f"{name}_{index}" for index in range(len(values))]
        flat.update(zip(names, values, strict=True))
        return ", ".join(f":{each}" for each in names) or "null"

    return _PARAMETER.sub(write_out, text), flat


@lru_cache(maxsize=256)
def for_many(statement: Statement, count: int, columns: tuple[str, ...]) -> Statement:
    """An insert of one row as an insert of several: those parameters end in `_2` in the third row."""
    head, word, rest = statement.text.partition("values (")
    row, tail = _closing(rest)
    numbered = re.compile(rf"(?<![:\w]):({'|'.join(columns)})\b")
    rows = (numbered.sub(rf":\1_{number}", f"({row})") for number in range(count))
    return Statement(statement.sentence, f"{head}{word[:-1]}{', '.join(rows)}{tail}")


@lru_cache(maxsize=256)
def from_arrays(statement: Statement, types: tuple[tuple[str, str], ...]) -> Statement:
    """An insert of several rows for psycopg: each of these parameters is a binary array of that type."""
    names = dict(types)
    head, _, rest = statement.text.partition("values (")
    row, tail = _closing(rest)
    picked = _PARAMETER.sub(lambda match: f"r.{match[1]}" if match[1] in names else match[0], row)
    arrays = ", ".join(f"%({name})b::{kind}" for name, kind in types)
    return Statement(statement.sentence, f"{head}select {picked} from unnest({arrays}) as r({', '.join(names)}){tail}")


@lru_cache(maxsize=256)
def positional(statement: Statement) -> tuple[Statement, tuple[str, ...]]:
    """The statement with `?` for each parameter, and the names of those parameters."""
    names = tuple(match[1] for match in _PARAMETER.finditer(statement.text))
    return Statement(statement.sentence, _PARAMETER.sub("?", statement.text)), names


def with_lists(text: str, form: str) -> str:
    """`in (:name*)` in the form in which a database accepts all values as one parameter."""
    return _LIST.sub(lambda match: form.format(match[1]), text)


def _closing(text: str) -> tuple[str, str]:
    """The text before the parenthesis that closes an open one, and the text after it."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[:place], text[place + 1 :]
    raise ValueError("a parenthesis is not closed")


def to_pyformat(text: str) -> str:
    """`:name` as `%(name)s`, for drivers with that style."""
    return _PARAMETER.sub(r"%(\1)s", text)


class Texts:
    """Statements in the form for a driver. Rendered texts are cached, those with short lists by their lengths."""

    def __init__(self, words: Callable[[], Mapping[str, str]], spell: Callable[[str], str]) -> None:
        self._words = words
        self._spell = spell
        #: Statements without lists.
        self.plain: dict[Statement, str] = {}
        #: The text of every other statement with its words filled in, and the names of its lists.
        self._filled: dict[Statement, tuple[str, tuple[str, ...]]] = {}
        self._written: dict[tuple[object, ...], str] = {}

    def lists(self, statement: Statement) -> tuple[str, ...]:
        """The names of its list parameters."""
        return () if statement in self.plain else self._fill(statement)[1]

    def write(self, statement: Statement, params: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
        """The text and its parameters, with each list written as single values."""
        plain = self.plain.get(statement)
        if plain is not None:
            return plain, params
        text, lists = self._fill(statement)
        if not lists:
            plain = self.plain[statement] = self._spell(text)
            return plain, params
        sizes = (statement, *[len(cast("Sequence[object]", params[name])) for name in lists])
        written = self._written.get(sizes)
        if written is not None:
            flat = dict(params)
            for name in lists:
                for index, value in enumerate(cast("Sequence[object]", flat.pop(name))):
                    flat[f"{name}_{index}"] = value
            return written, flat
        spread_out, flat = spread(text, params)
        written = self._spell(spread_out)
        if len(flat) <= MOST_WRITTEN:
            self._written[sizes] = written
        return written, flat

    def _fill(self, statement: Statement) -> tuple[str, tuple[str, ...]]:
        found = self._filled.get(statement)
        if found is None:
            text = statement.text.format(**self._words())
            lists = dict.fromkeys(name for name, many in _PARAMETER.findall(text) if many)
            found = self._filled[statement] = text, tuple(lists)
        return found
