"""The watches of a pipeline file, for the commands that run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.core.errors import BadValue, UnknownName
from headgate.core.values.words import suggestion

if TYPE_CHECKING:
    from headgate.core.ledger.watches.model import FileWatch


def watches_of(file: Path, datasets: Sequence[str] = ()) -> list[FileWatch]:
    """The watches of these datasets, or all of the file. UnknownName for a dataset without one."""
    from headgate.cli.ledger.definitions import read_pipeline, watches_in

    found = {each.dataset: each for each in watches_in(file, read_pipeline(file))}
    if not found:
        raise BadValue("pipeline file", file.name, "watches nothing; write a table [dataset.NAME.watch]")
    for name in datasets:
        if name not in found:
            raise UnknownName("watch", name, f"{file.name} has none of that name; {suggestion(name, tuple(found))}")
    return [found[name] for name in dict.fromkeys(datasets or found)]


class WatchFile(click.Path):
    """A pipeline file with watches to run."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Its watches."""
        return value if isinstance(value, list | tuple) else watches_of(Path(str(super().convert(value, param, ctx))))
