"""Which entries of the histories are asked for, checked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.locks import parse_lock_id
from headgate.core.names import check_resource
from headgate.core.words import check_word
from headgate.stores.base import HistoryFilter


def lock_filter(resource: str | None, lock_id: str | None, page: dict[str, Any]) -> HistoryFilter:
    """Which entries of the history of locks, checked."""
    from headgate.core.states import MACHINES

    if page["event"] is not None:
        check_word("event", page["event"], [word for machine in MACHINES for word in machine.told])
    return HistoryFilter(
        resource=None if resource is None else check_resource(resource),
        lock_id=None if lock_id is None else parse_lock_id(lock_id),
        **page,
    )


def check_time(value: object) -> datetime | None:
    """A moment, or None."""
    if value is None or isinstance(value, datetime):
        return value
    raise BadValue("since", value, "is not a time")


def check_entry_id(value: object) -> int | None:
    """The id of an entry, or None."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63):
        return value
    raise BadValue("before", value, "is not the id of an entry")
