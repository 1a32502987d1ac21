"""Joins the daemons: the work of those that run in rounds on a gate, and the handlers of consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from headgate.core.errors import BadValue, UnknownName
from headgate.core.inventory import MessageKind
from headgate.core.ledger.watches.model import WATCH_LEASE, FileWatch
from headgate.core.notices import NOTICE_KINDS
from headgate.daemons.batch_watcher import batch_watcher
from headgate.daemons.cleaner import cleaner
from headgate.daemons.consumers import Post
from headgate.daemons.history_keeper import history_keeper, log_keeper
from headgate.daemons.history_mover import history_mover
from headgate.daemons.messenger import messenger
from headgate.daemons.reaper import key_reaper, reaper
from headgate.daemons.rounds import Rounds
from headgate.daemons.timekeeper import timekeeper
from headgate.gate import Gate
from headgate.service.access.identity import owner
from headgate.service.queue.step_logs import LoggedHandler
from headgate.service.queue.work_folder import sweep_folder

if TYPE_CHECKING:
    from headgate.core.inventory import Message
    from headgate.daemons.watching.watcher import FileWatcher
    from headgate.ingest.notices.incident_sender import NoticeSender
    from headgate.service.queue.outcomes import Handler


def daemon_rounds(gate: Gate, names: Sequence[str], interval: float) -> list[Rounds]:
    """The rounds of the named daemons on a gate."""
    if not interval > 0:
        raise BadValue("interval", interval, "must be more than 0 seconds")
    return [each for name in dict.fromkeys(names) for each in MAKERS[name](gate, interval)]


def file_watchers(gate: Gate, watches: Sequence[FileWatch], lease: float = WATCH_LEASE) -> list[FileWatcher]:
    """A watcher for each watch. UnknownName for a dataset that is not defined."""
    from headgate.daemons.watching.places import place_of
    from headgate.daemons.watching.watcher import FileWatcher

    known = [each.name for each in gate.ledger.datasets()] if watches else []
    for each in watches:
        if each.dataset not in known:
            raise UnknownName("dataset", each.dataset, "Define it first: headgate define PIPELINE.toml")
    return [FileWatcher(gate.watches, each, place_of(each), lease=lease) for each in watches]


def ingest_handlers(gate: Gate) -> Mapping[str, Handler]:
    """The built-in ingest steps, by the names of their consumers."""
    from headgate.ingest.steps.handlers import handlers

    return handlers(gate.ingest)


def with_logs(gate: Gate, posts: Sequence[Post]) -> list[Post]:
    """The same consumers; the log of each step is stored with its ingest job, if there is a database for it."""
    limit = gate.settings.log_keep
    if not limit or not gate.keeps_inventory:
        return list(posts)
    secrets = gate.settings.secrets()
    return [replace(post, handler=LoggedHandler(post.handler, gate.inventory, limit, secrets)) for post in posts]


def _batch_watcher(gate: Gate, interval: float) -> list[Rounds]:
    return batch_watcher(gate.queue, interval)


def _reaper(gate: Gate, interval: float) -> list[Rounds]:
    found = reaper(gate.locks, gate.ledger if gate.keeps_ledger else None, gate.queue, interval)
    # A service removes its keys itself.
    return [*found, *([key_reaper(gate.repeats, interval)] if gate.keeps_repeats else [])]


def _cleaner(gate: Gate, interval: float) -> list[Rounds]:
    def sweep(age: float) -> int:
        """Remove the files of jobs from the work folder, once the queue no longer knows these jobs."""
        forget = gate.inventory.forget if gate.keeps_inventory else lambda _item: None
        return sweep_folder(gate.queue, gate.work_folder, gate.root.tag, age, forget)

    return cleaner(gate.queue, gate.settings.seconds("retention"), interval, sweep)


def _history(gate: Gate, interval: float) -> list[Rounds]:
    settings, found = gate.settings, list[Rounds]()
    if gate.service:
        return [Rounds("history", lambda: 0, interval, idle="the service looks after its history")]
    store = gate.store
    if (sources := store.history_sources()) and store.keeper is not None:
        age = settings.seconds("history_age")
        found += [history_mover(source, store.keeper, age, interval) for source in sources]
    keep = settings.keep("history_keep")
    if keep is not None and store.history.books:
        found.append(history_keeper(store.history.books, keep, interval))
    log_keep = settings.keep("log_keep_for")
    if log_keep is not None and store.logs is not None:
        found.append(log_keeper(store.logs, log_keep, interval))
    why = "there is no history to copy from ZooKeeper to a database, and `history_keep` and `log_keep_for` are forever"
    return found or [Rounds("history", lambda: 0, interval, idle=why)]


def _messenger(gate: Gate, interval: float) -> list[Rounds]:
    # Without an inventory there is no outbox either.
    if not gate.keeps_inventory:
        return []
    kinds = tuple(each for each in MessageKind if each not in NOTICE_KINDS)
    senders = {kind: lambda message: _send_for_ingest(gate, message) for kind in kinds}
    plan: Callable[[], int] = lambda: 0  # noqa: E731 - there are no recipients
    if gate.service is None and gate.settings["notices"]:
        from headgate.service.incident_notices import IncidentNotices

        plan = IncidentNotices(gate.settings, gate.store).plan
        notify = cache(lambda: _notice_sender(gate))
        senders |= {kind: lambda message: notify().send(message) for kind in NOTICE_KINDS}

    def send() -> int:
        """Send the messages that wait in the outbox. Its modules are imported when there is something to send."""
        planned = plan()
        if not gate.inventory.due(1):
            return planned
        from headgate.ingest.notices.outbox import send_due

        return planned + send_due(gate.inventory, lambda message: senders[message.kind](message), tuple(senders))

    return messenger(send, interval)


def _send_for_ingest(gate: Gate, message: Message) -> None:
    from headgate.ingest.notices.messages import send

    send(gate.ingest, message)


def _notice_sender(gate: Gate) -> NoticeSender:
    from headgate.ingest.notices.incident_sender import NoticeSender

    return NoticeSender(gate.settings, gate.inventory)


def _timekeeper(gate: Gate, interval: float) -> list[Rounds]:
    if gate.service:
        return [Rounds("timekeeper", lambda: 0, interval, idle="the service judges what is late")]
    if not gate.keeps_ledger:
        return [Rounds("timekeeper", lambda: 0, interval, idle="the store keeps no ledger")]
    return timekeeper(gate.expectations, owner(), interval)


#: Creates the rounds of each daemon, by the names in daemons/names.py.
MAKERS: Mapping[str, Callable[[Gate, float], list[Rounds]]] = {
    "batch-watcher": _batch_watcher,
    "reaper": _reaper,
    "cleaner": _cleaner,
    "history": _history,
    "messenger": _messenger,
    "timekeeper": _timekeeper,
}
