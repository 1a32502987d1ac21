"""Types of options and arguments, with suggestions for typos and completion with TAB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.core.ledger.model import Kind
from headgate.core.ledger.parsing import KIND_WORDS, STATUS_WORDS
from headgate.core.values.durations import parse_duration
from headgate.core.values.words import unknown_word

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
#: Longer lists of words are shown in the help of an option, not in its usage.
LONGEST_METAVAR = 40


class Word(click.ParamType[str]):
    """One of several words, in any case."""

    def __init__(self, what: str, words: Sequence[str], also: Sequence[str] = (), *, any_other: bool = False) -> None:
        """`also`: words that are accepted but not listed. `any_other`: the store knows more words than these."""
        self.name = what
        self.words = tuple(map(str, words))
        self._known = {each.lower(): str(each) for each in (*also, *words)}
        self._any_other = any_other

    @property
    def is_short(self) -> bool:
        """Whether the words fit into a usage line."""
        return len("|".join(self.words)) + 2 <= LONGEST_METAVAR

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The words themselves if they are short."""
        del param, ctx
        return f"[{'|'.join(self.words)}]" if self.is_short else self.name.upper()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word as it is spelled in the table."""
        del param, ctx
        found = self._known.get(str(value).lower())
        if found is None and not self._any_other:
            raise unknown_word(self.name, value, self.words)
        return str(value) if found is None else found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words with this prefix."""
        del ctx, param
        from click.shell_completion import CompletionItem

        return [CompletionItem(each) for each in self.words if each.lower().startswith(incomplete.lower())]


class Name(click.ParamType[str]):
    """A name in the store: of a job, a dataset or a profile."""

    def __init__(self, noun: str) -> None:
        self.name = noun

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The noun."""
        del param, ctx
        return self.name.upper()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names with this prefix, if the store answers soon."""
        del param
        from click.shell_completion import CompletionItem

        from headgate.cli.terminal.stored_names import stored_names

        return [CompletionItem(each) for each in stored_names(ctx, self.name) if each.startswith(incomplete)]


class Duration(click.ParamType[float]):
    """A length of time: 30, 30s, 10m, 2h, 1d. Returns seconds."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx
        return "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds. The service checks the range."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


DURATION = Duration()
JOB, DATASET, PROFILE = Name("job"), Name("dataset"), Name("profile")
KIND = Word("kind", tuple(Kind), tuple(KIND_WORDS))
STATUS = Word("status", tuple(dict.fromkeys(STATUS_WORDS.values())), tuple(STATUS_WORDS), any_other=True)
