"""Moving stores: opening sources and targets by URLs and files, for every kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.errors import BadValue, HalfMoved
from headgate.core.values.redaction import mask
from headgate.settings import Settings
from headgate.store_opening import SQL_KINDS, kind_of, named_service, own_url, store_options
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions

if TYPE_CHECKING:
    from headgate.service.moving import Moved
    from headgate.service.queue.moving import QueueSource, QueueTarget
    from headgate.stores.ports.moving import QueuePlace, Source, Target


@dataclass(frozen=True, slots=True)
class Moving:
    """A store that is to be moved."""

    source: Source
    target: Target
    #: Notes for the user, shown at the end.
    notes: Sequence[str] = ()

    def total(self) -> int:
        """The amount of work: each row is written, and read again."""
        return 2 * self.source.contents.total

    def run(self, tell: Callable[[int], None]) -> Moved:
        """Do it; `tell` is called with the amount done."""
        from headgate.service.moving import move

        return move(self.source, self.target, tell)


@contextmanager
def copying(
    from_url: str, to_url: str, *, force: bool = False, options: StoreOptions = DEFAULT_OPTIONS
) -> Iterator[Moving]:
    """A copy from one store to another, opened with the options. Unless forced, StoreInUse for an active lease."""
    if from_url == to_url:
        raise BadValue("target", mask(to_url), "is the source itself")
    if "zookeeper" in (kind_of(from_url), kind_of(to_url)):
        # The source is opened first, so that a refusal leaves nothing in the new location.
        with _queue_place(from_url, source=True) as old:
            queue = _with_room(_queue_source(old, in_use=force))
            with _queue_place(to_url, options=options) as new:
                yield Moving(queue, _queue_target(new))
        return
    with _source(from_url, in_use=force) as source:
        _with_room(source)
        with _target(to_url, options) as target:
            yield Moving(source, target)


@contextmanager
def backing_up(settings: Settings, file: Path) -> Iterator[Moving]:
    """A backup of the store in the settings, while others use it."""
    from headgate.stores.archive.file import ArchiveTarget, archive_errors

    target = ArchiveTarget(file)
    with archive_errors(file), _source(_own_url(settings), in_use=True) as source:
        try:
            yield Moving(source, target)
        finally:
            target.discard()


def not_backed_up(settings: Settings) -> list[str]:
    """The parts that a backup leaves out, as notes."""
    elsewhere = settings["coordination_url"]
    if not elsewhere or elsewhere == settings["url"]:
        return []
    return [f"locks and queue are kept in {mask(elsewhere)} and are not in the file"]


@contextmanager
def restoring(settings: Settings, file: Path) -> Iterator[Moving]:
    """A restore of a backup into the store in the settings."""
    from headgate.stores.archive.file import ArchiveSource, archive_errors
    from headgate.stores.sql.moving.whole import accept_backup

    url = _sql_only(_own_url(settings))
    with archive_errors(file):
        # Read to its end and accepted before the target is opened, because opening creates it.
        source = ArchiveSource(file, accept_backup)
    with archive_errors(file), _target(url, store_options(settings)) as target:
        yield Moving(source, target, source.notes)


def _own_url(settings: Settings) -> str:
    """The store itself: a service cannot move it."""
    if service := named_service(settings):
        raise BadValue(
            "server",
            mask(service),
            ("is a service; run this on a machine that reaches its store, with --url of the store"),
        )
    return own_url(settings)


def _with_room(source: Source) -> Source:
    """The same source; BadValue when its tokens or ids cannot jump any further."""
    from headgate.core.jumps import check_room

    found = source.contents
    check_room(source.name, found.token, found.numbers, found.jumped)
    return source


def _queue_place(
    url: str, *, source: bool = False, options: StoreOptions = DEFAULT_OPTIONS
) -> AbstractContextManager[QueuePlace]:
    """The queue at that URL. A source must exist; a target is created."""
    if kind_of(url) == "zookeeper":
        from headgate.stores.zookeeper.queue import moving as zookeeper

        return zookeeper.open_queue_place(url, source=source)
    from headgate.stores.sql.moving import queue as sql

    return sql.open_queue_place(_sql_only(url), source=source, options=options)


def _queue_source(old: QueuePlace, *, in_use: bool) -> QueueSource:
    """Only the queue, because both kinds of store keep it."""
    from headgate.service.queue.moving import QueueSource

    if old.half_moved:
        raise HalfMoved(f"copying into {old.name} has not finished; it cannot be copied elsewhere")
    return QueueSource(old, in_use=in_use)


def _queue_target(new: QueuePlace) -> QueueTarget:
    from headgate.service.queue.moving import QueueTarget

    return QueueTarget(new)


def _source(url: str, *, in_use: bool) -> AbstractContextManager[Source]:
    from headgate.stores.sql.moving.whole import open_source

    return open_source(_sql_only(url), in_use=in_use)


def _target(url: str, options: StoreOptions) -> AbstractContextManager[Target]:
    from headgate.stores.sql.moving.whole import open_target

    return open_target(_sql_only(url), options=options)


def _sql_only(url: str) -> str:
    if kind_of(url) in SQL_KINDS:
        return url
    raise BadValue("url", mask(url), "is not a database; name sqlite:///file, postgresql://… or mysql://…")
