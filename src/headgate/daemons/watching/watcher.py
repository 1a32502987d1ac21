"""One watcher: polls the place where the files of a dataset arrive, and publishes each chunk when its files are
complete.

Counted files are recorded in the store, in the transaction that publishes. A watcher that dies leaves nothing else: the
next one reads the recorded files, and polls for as long as a file has to be unchanged before it counts one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from time import thread_time

from headgate.core.errors import BadValue, HeadgateError, MissingExtra, ServiceUnavailable
from headgate.core.ledger.watches.gathering import Gathered, Gatherer
from headgate.core.ledger.watches.model import WATCH_LEASE, FileMark, FileWatch, Landing, Parcel, Ready, Sighting
from headgate.core.ledger.watches.names import UnreadableName
from headgate.core.values.plurals import plural
from headgate.daemons.rounds import Rounds
from headgate.daemons.watching.places import WatchedPlace
from headgate.service.access.identity import owner
from headgate.service.leases.clock import steady
from headgate.service.ledger.watches import Watches
from headgate.telemetry import event

#: Number of chunks that are published in one transaction.
PORTION = 200
#: A lease is renewed after this part of it.
RENEWED_AFTER = 0.25
#: A pause lasts at least this many times the CPU time of the poll before it, and this many times its length: a watcher
#: uses at most a tenth of a core, and leaves a slow file server idle most of the time.
REST_OF_CPU, REST_OF_WAIT = 10.0, 2.0
#: How often it checks, between two polls, whether the next one is due.
ASKED = 4
CHANGED = (Landing.NOTED, Landing.REDONE, Landing.IGNORED)


class FileWatcher:
    """The watcher of one dataset, in this process."""

    def __init__(
        self, watches: Watches, watch: FileWatch, place: WatchedPlace, *, worker: str | None = None,
        lease: float = WATCH_LEASE, clock: Callable[[], float] = steady,
    ) -> None:  # fmt: skip
        self.watch = watch
        self._watches, self._place, self._clock = watches, place, clock
        self._worker, self._lease = worker or owner(), lease
        self._gatherer = Gatherer(watch)
        #: The turn, while it is this worker's, and when it was renewed.
        self._token: int | None = None
        self._renewed = 0.0
        self._looked: float | None = None
        #: Seconds between two polls: more if a poll of many files takes long.
        self._pause = watch.every
        self._counted: dict[str, FileMark] = {}
        #: Files that were not counted, and since when each has been unchanged.
        self._seen: dict[str, tuple[FileMark, float]] = {}
        self._unsettled: Sequence[FileMark] = ()
        #: Files that do not count yet.
        self.waiting = 0
        #: The problem that prevents it from working; empty: none.
        self.problem = ""
        #: Why the last look saw nothing at all; None: it did.
        self.failure: HeadgateError | None = None
        #: How many chunks had other content than before, since it began.
        self.changed = 0
        #: The worker that watches instead; empty: this one does, or has not tried yet.
        self.other = ""

    @property
    def rounds(self) -> Rounds:
        """Its repeated task."""
        pause = min(self.watch.every / ASKED, self._lease * RENEWED_AFTER)
        return Rounds(f"watch {self.watch.dataset}", self.act, pause, done_word="published")

    def act(self) -> int:
        """Poll if that is due, and renew the lease. Returns the number of published chunks."""
        if not self._hold_turn() or (self._looked is not None and self._clock() < self._looked + self._pause):
            return 0
        return self.look()

    def look(self) -> int:
        """Poll once, unless another worker watches. Returns the number of published chunks."""
        if self._token is None and not self._hold_turn():
            return 0
        problem, waiting, published, self.failure = "", 0, 0, None
        began, worked = self._clock(), thread_time()
        self._looked = began
        try:
            found = self._place.find(self._keep_turn)
        except (ServiceUnavailable, BadValue, MissingExtra) as error:
            problem, self.failure = _problem(error), error
        else:
            gathered = self._gather(found.files)
            self._rest(self._clock() - began, thread_time() - worked)
            self._unsettled = gathered.unsettled
            published, refused = self._land(gathered.ready)
            waiting, problem = gathered.waiting, found.problem or refused or _strange(gathered)
        if problem != self.problem:
            event(
                "watch.problem", logging.WARNING if problem else logging.INFO, dataset=self.watch.dataset, why=problem
            )
        news = published or problem != self.problem or waiting != self.waiting
        self.waiting, self.problem = waiting, problem
        self._keep_turn(now=bool(news))
        return published

    def _rest(self, took: float, worked: float) -> None:
        """Pause according to the length of the poll. The time for publishing does not count."""
        self._pause = max(self.watch.every, REST_OF_WAIT * took, REST_OF_CPU * worked)

    @property
    def settling(self) -> float | None:
        """Seconds until the next file may count; None: no file is still changing."""
        ends = [self._seen[each.name][1] + self.watch.settle for each in self._unsettled if each.name in self._seen]
        return max(min(ends) - self._clock(), 0.0) if ends else None

    def stop(self) -> None:
        """Let another worker watch at once, or if the store is unavailable when the lease expires."""
        if self._token is not None:
            with suppress(HeadgateError):
                self._watches.end_turn(self.watch.dataset, self._worker, self._token)
            self._token = None

    # ---------------------------------------------------------------- turns

    def _hold_turn(self) -> bool:
        """Whether it is this worker's turn, after renewing it if that is due."""
        self._keep_turn(now=self._token is None)
        return self._token is not None

    def _keep_turn(self, *, now: bool = False) -> None:
        if not now and self._clock() < self._renewed + self._lease * RENEWED_AFTER:
            return
        watch, before = self.watch, self._token
        seen = Sighting(
            watch.dataset, watch.source, watch.pattern, self._worker, self._lease, self._pause, watch.quiet_after,
            self.waiting, self.problem, looked=before is not None and self._looked is not None, token=before,
        )  # fmt: skip
        asked = self._clock()
        turn = self._watches.take_turn(seen)
        if turn.token is None and before is not None:
            event("watch.lost", logging.WARNING, dataset=watch.dataset, worker=turn.worker)
        if turn.token is not None and turn.token != before:
            event("watch.began", dataset=watch.dataset, source=watch.source, turn=turn.token)
            self._begin()
        self._token, self._renewed = turn.token, asked
        self.other = turn.worker if turn.token is None else ""

    def _begin(self) -> None:
        """Read the recorded files. Files that belonged to another data id, by an earlier pattern, are new."""
        self._looked, self._seen = None, {}
        self._counted = {each.mark.name: each.mark for each in self._watches.counted(self.watch.dataset)
                         if _dataid(self.watch, each.mark.name) in (each.dataid, None)}  # fmt: skip

    # ---------------------------------------------------------------- files

    def _gather(self, found: dict[str, FileMark]) -> Gathered:
        now = self._clock()
        self._gatherer.forget_all_but(found)
        before, self._seen = self._seen, {}
        for name, mark in found.items():
            if self._is_news(mark):
                known = before.get(name)
                self._seen[name] = known if known is not None and known[0] == mark else (mark, now)

        def counts(mark: FileMark) -> bool:
            if self.watch.ready is Ready.WHOLE or mark.name not in self._seen:
                return True
            since = self._seen[mark.name][1]
            return since < now if self.watch.ready is Ready.MARKER else now - since >= self.watch.settle

        return self._gatherer.gather(found, self._is_news, counts)

    def _is_news(self, mark: FileMark) -> bool:
        known = self._counted.get(mark.name)
        return known is None or known.differs(mark)

    def _land(self, parcels: Sequence[Parcel]) -> tuple[int, str]:
        """Publish what is unchanged since it was listed. Returns the number of chunks, and why one was refused."""
        published, refused = 0, ""
        for portion in _portions(parcels):
            still = [each for each in portion if self._place.is_unchanged(each.files)]
            if self._token is None or not still:
                continue
            landed = self._watches.land(self.watch.dataset, self._token, still, self.watch.on_change)
            if landed is None:
                event("watch.lost", logging.WARNING, dataset=self.watch.dataset)
                self._token = None
                break
            for parcel, outcome in zip(still, landed, strict=True):
                if outcome.landing is Landing.REFUSED:
                    refused = refused or outcome.why
                    continue
                self._counted.update((mark.name, mark) for mark in parcel.files)
                published += outcome.landing is Landing.PUBLISHED
                self.changed += outcome.landing in CHANGED
            self._keep_turn()
        return published, refused


def _problem(error: HeadgateError) -> str:
    return f"{error.service}: {error.why}" if isinstance(error, ServiceUnavailable) else str(error)


def _portions(parcels: Sequence[Parcel]) -> Iterator[list[Parcel]]:
    rest = iter(parcels)
    while portion := list(islice(rest, PORTION)):
        yield portion


def _dataid(watch: FileWatch, name: str) -> str | None:
    try:
        found = watch.chunk_of(name)
    except UnreadableName:
        return None
    return None if found is None else found[0]


def _strange(gathered: Gathered) -> str:
    if not gathered.strange:
        return ""
    name, why = min(gathered.strange.items())
    others = len(gathered.strange) - 1
    return f"{name} {why}" + (f"; {plural(others, 'other name')} likewise" if others else "")
