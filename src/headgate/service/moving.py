"""Moving house: a store's rows from one place to another, compared there before anybody works with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.errors import HalfMoved
from headgate.stores.ports.moving import Digest, Source, Target

#: Called while it goes on with how many rows are done. Each is written, and read again.
Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved, and found to be the same."""

    source: str
    target: str
    #: Each table with its number of rows and their digest.
    tables: dict[str, tuple[int, str]]

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(rows for rows, _digest in self.tables.values())


def move(source: Source, target: Target, tell: Tell) -> Moved:
    """Write all that the source has into the target, compare, and let the target be worked with."""
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
