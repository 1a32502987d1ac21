"""Moving a store: its rows are copied to another location, and compared there before it can be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.errors import HalfMoved
from headgate.stores.ports.moving import Digest, Source, Target

#: Called with the number of rows done so far. Each is written, and read again.
Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move, after comparison."""

    source: str
    target: str
    #: Each table with its number of rows and their digest.
    tables: dict[str, tuple[int, str]]

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(rows for rows, _digest in self.tables.values())


def move(source: Source, target: Target, tell: Tell) -> Moved:
    """Copy everything from the source to the target, compare, and release the target for use."""
    contents = source.contents
    target.begin(contents)
    digests: dict[str, Digest] = {}
    done = 0
    for table in contents.tables:
        digest = digests[table] = Digest()
        for rows in source.rows(table):
            target.add(table, rows)
            digest.add(rows)
            done += len(rows)
            tell(done)
    for table, found in target.digests():
        if found != digests[table]:
            raise HalfMoved(f"{table} in {target.name} differs from {source.name}: another process wrote to it")
        done += found.rows
        tell(done)
    source.check_unchanged(digests)
    target.finish(digests, source.jump)
    return Moved(source.name, target.name, {table: (each.rows, each.text) for table, each in digests.items()})
