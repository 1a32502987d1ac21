"""Values that options and arguments take: which there are, which one was meant, and what TAB offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.core.ledger import KIND_WORDS, STATUS_WORDS, Kind
from headgate.core.words import unknown_word

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
#: Longer lists of words are shown in the help of an option, not in its usage.
LONGEST_METAVAR = 40


class Word(click.ParamType[str]):
    """One of some words, in any case."""

    def __init__(self, what: str, words: Sequence[str], also: Sequence[str] = (), *, any_other: bool = False) -> None:
        """`also`: words that are accepted and not listed. `any_other`: the store knows more words than these."""
        self.name = what
        self.words = tuple(map(str, words))
        self._known = {each.lower(): str(each) for each in (*also, *words)}
        self._any_other = any_other

    @property
    def is_short(self) -> bool:
        """Whether the words fit into a line of usage."""
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
        """The words that begin so."""
        del ctx, param
        from click.shell_completion import CompletionItem

        return [CompletionItem(each) for each in self.words if each.lower().startswith(incomplete.lower())]


class Name(click.ParamType[str]):
    """A name that is kept in the store: of a job, a dataset, a profile."""

    def __init__(self, noun: str) -> None:
        self.name = noun

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The noun."""
        del param, ctx
        return self.name.upper()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, if the store answers soon."""
        del param
        from click.shell_completion import CompletionItem

        from headgate.cli.completion import stored_names

        return [CompletionItem(each) for each in stored_names(ctx, self.name) if each.startswith(incomplete)]


JOB, DATASET, PROFILE = Name("job"), Name("dataset"), Name("profile")
KIND = Word("kind", tuple(Kind), tuple(KIND_WORDS))
STATUS = Word("status", tuple(dict.fromkeys(STATUS_WORDS.values())), tuple(STATUS_WORDS), any_other=True)


def word_option(flag: str, word: Word, text: str, **settings: Any) -> Callable[[F], F]:
    """An option that lists its words: in its usage if they are short, else in its help."""
    listed = text if word.is_short else f"{text} One of: {', '.join(word.words)}."
    return click.option(flag, type=word, help=listed, **settings)


def after_option(function: F, **how: Any) -> F:
    """The cursor at which a page of a list starts."""
    return click.option("--after", metavar="CURSOR", help="Cursor: `next` of the previous page.", **how)(function)


def limit_option(what: str) -> Callable[[F], F]:
    """The option that says how long a list may be."""
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        default=100,
        show_default=True,
        help=f"Largest number of {what}.",
    )
