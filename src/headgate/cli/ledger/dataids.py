"""Data ids on the command line: one parser for every command, and a confirmation for large ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import TRY_LATER
from headgate.cli.terminal.options import together
from headgate.core.errors import BadValue, Refused, UnknownName
from headgate.core.ledger.ranges import Members, expand

if TYPE_CHECKING:
    from headgate.core.ledger.model import Change

F = TypeVar("F", bound=Callable[..., Any])
#: Ranges with more members than this are confirmed first.
MANY = 10_000
#: Maximum number of refusals that are listed.
MOST_REFUSED = 20

_EXACT = "headgate.exact"


def _keep_exact(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's way
    context.meta[_EXACT] = value


EXACT = click.option(
    "--exact",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_exact,
    help="Take data ids literally: `..` does not mark a range.",
)


@dataclass(frozen=True)
class Selection:
    """Expand the given data ids, one by one."""

    parts: Sequence[Members]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[str]:
        return (dataid for part in self.parts for dataid in part)


class DataIdRange(click.ParamType[Members]):
    """A data id, or a range of them."""

    name = "dataid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Members:
        del param
        return value if isinstance(value, Members) else expand(value, exact=is_exact(ctx))


class OneDataId(click.ParamType[str]):
    """A single data id. Ranges are refused."""

    name = "dataid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        del param
        if ".." in value and not is_exact(ctx):
            count = len(expand(value))
            raise BadValue("dataid", value, f"is a range of {count:,} data ids; this command takes one")
        return str(value)


ONE = OneDataId()


def is_exact(context: click.Context | None) -> bool:
    """Whether `--exact` was given."""
    return bool(context and context.meta.get(_EXACT))


def many_dataids(function: F, *, required: bool = True) -> F:
    """The argument DATAID..., with ranges. The command receives a Selection; large ranges were confirmed."""

    @wraps(function)
    def call(*args: Any, dataids: Sequence[Members], yes: bool, **more: Any) -> Any:
        selection = Selection(dataids)
        confirm(selection, yes=yes)
        return function(*args, dataids=selection, **more)

    added = together(
        click.argument("dataids", metavar="DATAID...", nargs=-1, required=required, type=DataIdRange()),
        EXACT,
        click.option("--yes", is_flag=True, help=f"Change more than {MANY:,} chunks without asking."),
    )
    return added(call)  # type: ignore[return-value] # the same kind


def confirm(selection: Selection, *, yes: bool) -> None:
    """Ask before a command changes a large range. Without a terminal, `--yes` is needed."""
    context = click.get_current_context()
    console: Console = context.obj
    count = sum(len(each) for each in selection.parts if len(each) > 1)
    if yes or count <= MANY:
        return
    otherwise = f"{context.info_name} would change {count:,} chunks: add --yes if you mean it"
    if not console.agrees(f"{context.info_name} {count:,} chunks?", "", otherwise):
        context.exit(0)


def act_on_each(
    console: Console, dataids: Selection, act: Callable[[str], Sequence[Change]]
) -> tuple[list[Change], int]:
    """Change each chunk in a separate transaction. Returns the changes and the exit code; lists refused chunks."""
    if len(dataids) == 1:
        return list(act(next(iter(dataids)))), 0
    changes: list[Change] = []
    refused: list[tuple[str, str]] = []
    for dataid in dataids:
        try:
            changes += act(dataid)
        except Refused as error:
            refused.append((dataid, str(error)))
        except UnknownName as error:
            if error.what != "chunk":
                raise
            refused.append((dataid, str(error)))
    if refused:
        complain_refused(console, refused, len(dataids))
    return changes, TRY_LATER if refused else 0


def complain_refused(
    console: Console, chunks: Sequence[tuple[str, str]], count: int, *, refused: int | None = None
) -> None:  # fmt: skip
    """List refused chunks with their reasons. `refused`: how many there are, if not all are given."""
    from headgate.cli.terminal.failures import complain

    many = len(chunks) if refused is None else refused
    lines = [f"{many:,} of {count:,} chunks were refused:"]
    lines += [f"  {dataid}: {why.splitlines()[0]}" for dataid, why in chunks[:MOST_REFUSED]]
    lines += [f"  … and {many - MOST_REFUSED:,} more"] if many > MOST_REFUSED else []
    complain(console, "some-refused", "\n".join(lines))
