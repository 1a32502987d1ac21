"""Watches in SQL: the port's methods, one transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from headgate.calls.deadlines import WATCH_CALLS, answered_in_time
from headgate.core.errors import ClaimRefused, TransitionRefused, UnknownName
from headgate.core.ledger.watches.model import (
    FileMark,
    Landed,
    Landing,
    OnChange,
    Parcel,
    Sighting,
    WatchedFile,
    Watcher,
    WatchTurn,
    changes_of,
)
from headgate.core.values.words import suggestion
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import moment, to_micro, to_seconds
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import overrides
from headgate.stores.sql.ledger.overrides import Resubmission
from headgate.stores.sql.ledger.shapes import dataset_of, external_shape
from headgate.stores.sql.news.topics import ANYTHING, News, of_dataset

LOCK_WATCHER = Statement(
    "The watcher of a dataset, locked.",
    "select worker, token, lease_until - {now} from hg_watcher where dataset_id = :dataset {for_update}",
)
ADD_WATCHER = Statement(
    "Add a watcher of a dataset.",
    """insert into hg_watcher (dataset_id, source, pattern, worker, token, lease, lease_until, every, quiet_after,
                               since, looked, arrived, files, changed, waiting, problem)
       values (:dataset, :source, :pattern, :worker, :token, :lease, {now} + :lease, :every, :quiet_after, {wall},
               null, null, 0, 0, :waiting, :problem)""",
)
RENEW_WATCHER = Statement(
    "A worker continues to watch, or another one takes over.",
    """update hg_watcher set since = case when worker = '' then {wall} else since end,
              source = :source, pattern = :pattern, worker = :worker, token = :token, lease = :lease,
              lease_until = {now} + :lease, every = :every, quiet_after = :quiet_after, waiting = :waiting,
              problem = :problem, looked = case when :has_looked = 1 then {wall} else looked end
       where dataset_id = :dataset""",
)
END_TURN = Statement(
    "A worker stops watching.",
    "update hg_watcher set lease_until = 0 where dataset_id = :dataset and worker = :worker and token = :token",
)
COUNT_FILES = Statement(
    "Update the counts of files.",
    """update hg_watcher set files = files + :new, changed = changed + :changed,
              arrived = case when :new + :changed > 0 then {wall} else arrived end,
              last_dataid = case when :new + :changed > 0 then :last else last_dataid end
       where dataset_id = :dataset""",
)
READ_WATCHERS = Statement(
    "Every watcher.",
    """select d.name, w.source, w.pattern, w.worker, w.every, w.lease, w.quiet_after, w.since, w.looked, w.arrived,
              w.files, w.changed, w.waiting, w.problem, w.lease_until > {now}
       from hg_watcher w join hg_dataset d on d.id = w.dataset_id where w.worker <> '' order by d.name""",
)
FORGET_WATCHER = Statement(
    "Stop watching a dataset. Its row stays for the token, which an earlier watcher may still hold.",
    """update hg_watcher set worker = '', token = token + 1, lease_until = 0, looked = null, arrived = null,
              last_dataid = '', files = 0, changed = 0, waiting = 0, problem = ''
       where dataset_id = :dataset and worker <> ''""",
)
_FILE = "select name, dataid, size, modified, tag, since, changes from hg_watched_file"
READ_FILES = Statement(
    "Files that were counted, by key.",
    f"{_FILE} where dataset_id = :dataset and nkey > :after order by nkey limit :limit",
)
READ_FILES_OF = Statement("The files of some chunks.", f"{_FILE} where dataset_id = :dataset and dataid in (:dataids*)")
READ_NAMED_FILES = Statement("Files by their keys.", f"{_FILE} where dataset_id = :dataset and nkey in (:keys*)")
ADD_FILE = Statement(
    "Record a counted file.",
    """insert into hg_watched_file (dataset_id, nkey, name, dataid, size, modified, tag, since, changes)
       values (:dataset, :nkey, :name, :dataid, :size, :modified, :tag, {wall}, 0)""",
)
CHANGE_FILE = Statement(
    "Record changed content of a file.",
    """update hg_watched_file set size = :size, modified = :modified, tag = :tag, dataid = :dataid, since = {wall},
              changes = changes + 1
       where dataset_id = :dataset and nkey = :nkey""",
)
#: Number of characters of a file's name in a reason.
SHOWN_NAME = 200


@answered_in_time(WATCH_CALLS)
class SqlWatches:
    """Watchers and their files in one SQL database."""

    def __init__(self, database: Database, news: News) -> None:
        self.name = database.name
        self.options = database.options
        self._database = database
        self._news = news

    def take_turn(self, seen: Sighting) -> WatchTurn:
        return self._database.write_through(lambda tx: _take_turn(tx, seen))

    def end_turn(self, dataset: str, worker: str, token: int) -> None:
        def work(tx: Transaction) -> None:
            tx.run(END_TURN, dataset=dataset_of(tx, dataset)[0], worker=worker, token=token)

        self._database.write(work)

    def counted(self, dataset: str, after: str | None, limit: int) -> Sequence[WatchedFile]:
        def work(tx: Transaction) -> list[Row]:
            behind = b"" if after is None else _key(after)
            return tx.all(READ_FILES, dataset=dataset_of(tx, dataset)[0], after=behind, limit=limit)

        return [_read_file(row) for row in self._database.read(work)]

    def land(
        self, dataset: str, token: int, parcels: Sequence[Parcel], on_change: OnChange, who: str
    ) -> Sequence[Landed] | None:
        topics = (of_dataset(dataset), *([ANYTHING] if on_change is OnChange.REDO else []))
        return self._news.write(lambda tx: _Landing(tx, dataset, on_change, who).land(token, parcels), *topics)

    def watchers(self) -> Sequence[Watcher]:
        return [_read_watcher(row) for row in self._database.read(lambda tx: tx.all(READ_WATCHERS))]

    def forget_watcher(self, dataset: str) -> None:
        def work(tx: Transaction) -> None:
            if tx.count(FORGET_WATCHER, dataset=dataset_of(tx, dataset)[0]) < 1:
                known = [str(row[0]) for row in tx.all(READ_WATCHERS)]
                raise UnknownName("watcher", dataset, suggestion(dataset, known) if known else "no dataset is watched")

        self._database.write(work)


# ---------------------------------------------------------------- turns


def _take_turn(tx: Transaction, seen: Sighting) -> WatchTurn:
    number, _ = dataset_of(tx, seen.dataset)
    found = tx.one(LOCK_WATCHER, dataset=number)
    if found is not None and found[0] != seen.worker and int(found[2]) > 0:
        return WatchTurn(None, str(found[0]))
    values = {
        "source": seen.source, "pattern": seen.pattern, "worker": seen.worker, "lease": to_micro(seen.lease),
        "every": to_micro(seen.every), "quiet_after": to_micro(seen.quiet_after),
        "problem": seen.problem,
    }  # fmt: skip
    if found is None:
        tx.run(ADD_WATCHER, dataset=number, token=1, waiting=seen.waiting, **values)
        return WatchTurn(1, seen.worker)
    # An expired lease is renewed if nobody else took the turn, so that a slow watcher need not start over.
    token = int(found[1]) + (found[0] != seen.worker or (int(found[2]) <= 0 and seen.token != int(found[1])))
    looked = int(seen.looked)
    tx.run(RENEW_WATCHER, dataset=number, token=token, has_looked=looked, waiting=seen.waiting, **values)
    return WatchTurn(token, seen.worker)


# ---------------------------------------------------------------- files


class _Landing:
    """The files of some chunks, within one transaction."""

    def __init__(self, tx: Transaction, dataset: str, on_change: OnChange, who: str) -> None:
        self._tx, self._dataset, self._on_change, self._who = tx, dataset, on_change, who
        self._number = dataset_of(tx, dataset)[0]
        self._files, self._changes, self._last = 0, 0, ""

    def land(self, token: int, parcels: Sequence[Parcel]) -> list[Landed] | None:
        """Publish what is new, treat the rest as requested, and record it. None: it is not the caller's turn."""
        turn = self._tx.one(LOCK_WATCHER, dataset=self._number)
        if turn is None or int(turn[1]) != token:
            return None
        known = self._known(parcels)
        before = {each.dataid: [file.mark for file in known if file.dataid == each.dataid] for each in parcels}
        news = {each.dataid: changes_of(before[each.dataid], each) for each in parcels}
        new = [each.dataid for each in parcels if news[each.dataid] and not before[each.dataid]]
        published = self._publish(new)
        found = [published.get(each.dataid) or self._change(each.dataid, news[each.dataid]) for each in parcels]
        names = {each.mark.name for each in known}
        for landed in found:
            if landed.landing not in (Landing.SAME, Landing.REFUSED):
                self._record(landed.dataid, news[landed.dataid], names)
        if self._files or self._changes:
            self._tx.run(COUNT_FILES, dataset=self._number, new=self._files, changed=self._changes,
                         last=self._last)  # fmt: skip
        return found

    def _known(self, parcels: Sequence[Parcel]) -> list[WatchedFile]:
        """The records of these chunks, and of files that belonged to other chunks by an earlier pattern."""
        dataids, keys = [each.dataid for each in parcels], [_key(file.name) for each in parcels for file in each.files]
        rows = self._tx.all(READ_FILES_OF, dataset=self._number, dataids=dataids) if dataids else []
        rows += self._tx.all(READ_NAMED_FILES, dataset=self._number, keys=keys) if keys else []
        return list({str(row[0]): _read_file(row) for row in rows}.values())

    def _publish(self, dataids: Sequence[str]) -> dict[str, Landed]:
        """Publish new chunks: all at once, or each separately when one is refused."""
        if not dataids:
            return {}
        try:
            with self._tx.part(again=self._tx.again) as part:
                overrides.publish(part, self._dataset, dataids, self._who)
        except (ClaimRefused, TransitionRefused) as error:
            if len(dataids) == 1:
                return {dataids[0]: Landed(dataids[0], Landing.REFUSED, str(error))}
            return {dataid: landed for each in dataids for dataid, landed in self._publish([each]).items()}
        return {dataid: Landed(dataid, Landing.PUBLISHED) for dataid in dataids}

    def _change(self, dataid: str, news: Sequence[FileMark]) -> Landed:
        """A chunk was counted before: react as requested if its files have changed."""
        if not news:
            return Landed(dataid, Landing.SAME)
        if self._on_change is OnChange.IGNORE:
            return Landed(dataid, Landing.IGNORED)
        try:
            with self._tx.part(again=self._tx.again) as part:
                self._renew(part, dataid, news)
        except (ClaimRefused, TransitionRefused) as error:
            return Landed(dataid, Landing.REFUSED, str(error))
        return Landed(dataid, Landing.REDONE if self._on_change is OnChange.REDO else Landing.NOTED)

    def _renew(self, tx: Transaction, dataid: str, news: Sequence[FileMark]) -> None:
        """Make the chunk READY again, and with `redo` redo everything made from it: the history records both."""
        if overrides.publish(tx, self._dataset, [dataid], self._who):
            return  # It was no longer READY.
        more = f" and {len(news) - 1} more" if len(news) > 1 else ""
        reason = f"delivered again with other content: {news[0].name[:SHOWN_NAME]}{more}"
        downstream = self._on_change is OnChange.REDO
        wish = Resubmission(reason, self._who, downstream=downstream, steal=False, dry_run=False)
        shape = external_shape(tx, self._dataset, share=True)
        overrides.apply_all(tx, overrides.find_resubmitted(tx, shape, [dataid], wish))
        overrides.publish(tx, self._dataset, [dataid], self._who)

    def _record(self, dataid: str, news: Sequence[FileMark], names: set[str]) -> None:
        self._last = dataid
        for mark in news:
            again = mark.name in names
            self._tx.run(
                CHANGE_FILE if again else ADD_FILE, dataset=self._number, nkey=_key(mark.name), dataid=dataid,
                size=mark.size, modified=mark.modified, tag=mark.tag, **({} if again else {"name": mark.name}),
            )  # fmt: skip
            self._files, self._changes = self._files + (not again), self._changes + again


def _key(name: str) -> bytes:
    return sha256(name.encode()).digest()


def _read_file(row: Row) -> WatchedFile:
    name, dataid, size, modified, tag, since, changes = row
    mark = FileMark(str(name), int(size), int(modified), str(tag))
    return WatchedFile(mark, str(dataid), moment(since), int(changes))


def _read_watcher(row: Row) -> Watcher:
    name, source, pattern, worker, every, lease, quiet_after, since, looked, arrived = row[:10]
    files, changed, waiting, problem, alive = row[10:]
    return Watcher(
        str(name), str(source), str(pattern), str(worker), to_seconds(every) or 0.0, to_seconds(lease) or 0.0,
        to_seconds(quiet_after), moment(since), None if looked is None else moment(looked),
        None if arrived is None else moment(arrived), int(files), int(changed), int(waiting), str(problem), bool(alive),
    )  # fmt: skip
