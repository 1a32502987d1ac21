"""The inventory in SQL: the port's methods, one transaction each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from headgate.calls.deadlines import INVENTORY_CALLS, answered_in_time
from headgate.core.errors import ObjectRefused, UnknownName
from headgate.core.inventory import (
    Delivery,
    Intake,
    InventoryFile,
    Message,
    MessageFilter,
    MessageKind,
    ObjectFilter,
    ObjectVersion,
    Recipient,
    Recording,
    Sender,
    StoredObject,
)
from headgate.core.ledger.model import Dataset
from headgate.core.logs import Log, LogText
from headgate.core.queue.model import MESSAGE_LENGTH
from headgate.core.values.wire import parse, plain
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import micro, moment, to_micro
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction, by_column
from headgate.stores.sql.inventory import statements as sql
from headgate.stores.sql.ledger import overrides as chunk_overrides
from headgate.stores.sql.ledger import statements as ledger_statements
from headgate.stores.sql.ledger.definitions import define_dataset
from headgate.stores.sql.news.topics import News, of_dataset

#: More files than any version has.
NO_LIMIT = 2**31 - 1


@answered_in_time(INVENTORY_CALLS)
class SqlInventory:
    """Objects, versions, files, local ids, intakes and the outbox in one SQL database."""

    def __init__(self, database: Database, news: News) -> None:
        self.name = database.name
        self._database = database
        self._news = news
        self.options = database.options

    # ---------------------------------------------------------------- names

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        if not ids:
            return {}
        rows = self._database.read(lambda tx: tx.all(sql.READ_LOCAL_IDS, owner=owner, ids=list(ids)))
        return {str(local): str(ark) for local, ark in rows}

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        return self._database.write_through(lambda tx: _claim(tx, _owner(tx, owner), ids, ark))

    # ---------------------------------------------------------------- objects

    def record(self, recording: Recording, messages: Sequence[Message], who: str) -> bool:
        return self._news.write(lambda tx: _record(tx, recording, messages, who), of_dataset(recording.collection))

    def owner_and_version(self, ark: str) -> tuple[str, int] | None:
        row = self._database.read(lambda tx: tx.one(sql.READ_OBJECT_OWNER, ark=ark))
        return None if row is None else (str(row[0]), int(row[1]))

    def recorded(self, job: str) -> tuple[str, int] | None:
        row = self._database.read(lambda tx: tx.one(sql.FIND_INGEST, job=job))
        return None if row is None else (str(row[0]), int(row[1]))

    def objects(self, which: ObjectFilter) -> Sequence[StoredObject]:
        from headgate.stores.sql.inventory.questions import ask_objects

        return ask_objects(self._database, which)

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        rows = self._database.read(lambda tx: tx.all(sql.READ_VERSIONS, ark=ark))
        if not rows:
            raise UnknownName("object", ark, "List them with: headgate ingest objects")
        return [
            ObjectVersion(int(number), moment(created), int(size), int(files), str(job), str(batch), str(profile))
            for number, created, size, files, job, batch, profile in rows
        ]

    def files(self, ark: str, version: int, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        where = {"ark": ark, "number": version, "start": start, "limit": NO_LIMIT if limit is None else limit}
        rows = self._database.read(lambda tx: tx.all(sql.READ_FILES, **where))
        return [
            InventoryFile(str(name), int(size), str(digest), int(since), json.loads(digests or "{}"))
            for name, size, digest, since, digests in rows
        ]

    def keep_log(self, job: str, token: int, attempt: int, step: str, texts: Sequence[LogText], *, ended: bool) -> None:
        from headgate.stores.sql.logs import NO_JOB, Writer, keep_log

        writer = Writer(NO_JOB, job, token, attempt, step)
        self._database.write_through(lambda tx: keep_log(tx, writer, texts, ended=ended))

    def logs(self, job: str, limit: int) -> Sequence[Log]:
        from headgate.stores.sql.logs import NO_JOB, read_logs

        return self._database.read(lambda tx: read_logs(tx, NO_JOB, job, None, None, limit))

    def remove(self, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
        return self._database.write_through(lambda tx: _remove(tx, ark, dataids, reason, who))

    # ---------------------------------------------------------------- intakes

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        return self._database.write_through(lambda tx: _keep_intake(tx, intake, anew=anew))

    def intake(self, batch: str) -> Intake | None:
        return self._database.read(lambda tx: _intake(tx, batch))

    def set_problem(self, batch: str, problem: str) -> None:
        def work(tx: Transaction) -> None:
            if _intake(tx, batch) is None:
                _keep_intake(tx, Intake(batch))
            tx.run(sql.SET_PROBLEM, batch=batch, problem=problem)

        self._database.write(work)

    def forget(self, item: str) -> None:
        from headgate.stores.sql.logs import drop_logs

        def work(tx: Transaction) -> None:
            tx.run(sql.DROP_INTAKE, batch=item)
            tx.run(sql.DROP_MESSAGES, item=item)
            tx.run(sql.DROP_LATE_MESSAGES)
            drop_logs(tx, item)

        self._database.write(work)

    # ---------------------------------------------------------------- outbox

    def post(self, message: Message) -> bool:
        return self._database.write_through(lambda tx: post(tx, message))

    def message(self, message_id: str) -> Message | None:
        row = self._database.read(lambda tx: tx.one(sql.FIND_MESSAGE, id=message_id))
        return None if row is None else read_message(row)

    def messages(self, which: MessageFilter) -> Sequence[Message]:
        from headgate.stores.sql.inventory.questions import ask_messages

        return [read_message(row) for row in ask_messages(self._database, which)]

    def due(self, limit: int) -> Sequence[Message]:
        return [read_message(row) for row in self._database.read(lambda tx: tx.all(sql.READ_DUE, limit=limit))]

    def settle(self, message_id: str, state: Delivery, problem: str = "", recipients: Sequence[Recipient] = ()) -> None:
        # A message that was given up and then delivered after all counts as delivered, never the reverse.
        before = [Delivery.WAITING.value] + [Delivery.GIVEN_UP.value] * (state is Delivery.DELIVERED)
        values = {"state": state.value, "problem": problem[:MESSAGE_LENGTH], "recipients": _document(recipients)}
        self._database.write(lambda tx: tx.run(sql.SETTLE_MESSAGE, id=message_id, before=before, **values))

    def delay(self, message_id: str, problem: str, seconds: float, recipients: Sequence[Recipient] = ()) -> None:
        values = {"problem": problem[:MESSAGE_LENGTH], "recipients": _document(recipients)}
        self._database.write(lambda tx: tx.run(sql.DELAY_MESSAGE, id=message_id, pause=to_micro(seconds), **values))

    def resend(self, message_id: str) -> Message:
        return self._database.write_through(lambda tx: _resend(tx, message_id))

    def discard(self, message_id: str, reason: str) -> Message:
        del reason  # It is logged where it is passed.

        def work(tx: Transaction) -> Message:
            found = _hold_message(tx, message_id)
            tx.run(sql.DISCARD_MESSAGE, id=message_id)
            return found

        return self._database.write_through(work)


# ---------------------------------------------------------------- recording


def _record(tx: Transaction, recording: Recording, messages: Sequence[Message], who: str) -> bool:
    """One version, with everything that belongs to it. False: it is there already."""
    at = tx.one(ledger_statements.READ_WALL)[0]
    number = _hold_object(tx, recording, at)
    if not _is_new(tx, number, recording):
        return False
    _add_version(tx, number, recording, at)
    tx.run(
        sql.CHANGE_OBJECT, id=number, version=recording.version, who=recording.who, what=recording.what,
        when=recording.when, at=at,
    )  # fmt: skip
    for name in dict.fromkeys((recording.collection, *recording.membership)):
        _join_collection(tx, number, name)
    _claim(tx, _owner(tx, recording.owner), recording.local, recording.ark)
    _publish(tx, recording, who)
    for message in messages:
        post(tx, message)
    return True


def _hold_object(tx: Transaction, recording: Recording, at: int) -> int:
    """The object's row, locked; it is created if there is none."""
    owner = _owner(tx, recording.owner)
    row = tx.one(sql.LOCK_OBJECT, ark=recording.ark)
    if row is None:
        tx.run(sql.ADD_OBJECT, ark=recording.ark, owner=owner, at=at)
        row = tx.one(sql.LOCK_OBJECT, ark=recording.ark)
    if int(row[1]) != owner:
        raise ObjectRefused(recording.ark, f"its owner is not {recording.owner}")
    return int(row[0])


def _is_new(tx: Transaction, number: int, recording: Recording) -> bool:
    known = tx.one(sql.FIND_INGEST, job=recording.job)
    if known is not None:
        if (str(known[0]), int(known[1])) == (recording.ark, recording.version):
            return False
        raise ObjectRefused(recording.ark, f"{recording.job} is already recorded as {known[0]} v{known[1]}")
    maker = tx.one(sql.MAKER_OF, object=number, number=recording.version)
    if maker is not None:
        raise ObjectRefused(recording.ark, f"version {recording.version} is already recorded as stored by {maker[0]}")
    return True


def _add_version(tx: Transaction, number: int, recording: Recording, at: int) -> None:
    key: dict[str, object] = {"object": number, "number": recording.version}
    size = sum(each.size for each in recording.files)
    tx.run(sql.ADD_VERSION, **key, created=micro(recording.created), size=size, files=len(recording.files))
    columns = by_column(recording.files, "name", "size", "digest", "since")
    columns |= {
        "position": list(range(len(recording.files))),
        "digests": [json.dumps(dict(each.digests)) if each.digests else None for each in recording.files],
    }
    tx.many(sql.ADD_FILE, columns, **key)
    tx.run(
        sql.ADD_INGEST, **key, job=recording.job, batch=recording.batch, profile=recording.profile,
        submitter=recording.submitter, payload=recording.payload, type=recording.type, at=at,
    )  # fmt: skip


def _join_collection(tx: Transaction, number: int, name: str) -> None:
    collection = _number(tx, sql.FIND_COLLECTION, sql.ADD_COLLECTION, name)
    if tx.one(sql.HAS_MEMBERSHIP, object=number, collection=collection) is None:
        tx.run(sql.ADD_MEMBERSHIP, object=number, collection=collection)


def _publish(tx: Transaction, recording: Recording, who: str) -> None:
    """The version is READY in the ledger: pipelines continue from here."""
    if tx.one(ledger_statements.READ_DATASET, name=recording.collection) is None:
        define_dataset(tx, Dataset(recording.collection))
    chunk_overrides.publish(tx, recording.collection, [recording.dataid], who)


def _remove(tx: Transaction, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
    row = tx.one(sql.LOCK_OBJECT, ark=ark)
    if row is None:
        return False
    for (collection,) in tx.all(sql.COLLECTIONS_OF, ark=ark):
        if tx.one(ledger_statements.READ_DATASET, name=collection) is not None:
            chunk_overrides.withdraw(tx, str(collection), dataids, reason, who)
    for statement in sql.DROP_OBJECT:
        tx.run(statement, object=int(row[0]))
    tx.run(sql.DROP_LOCAL_IDS, ark=ark)
    return True


# ---------------------------------------------------------------- names


def _claim(tx: Transaction, owner: int, ids: Sequence[str], ark: str) -> str:
    """The object that an owner's local ids belong to: the given one, unless another was first."""
    if not ids:
        return ark
    wanted = sorted(set(ids))
    found = {str(local): str(of) for local, of in tx.all(sql.LOCK_LOCAL_IDS, owner=owner, ids=wanted)}
    if len(set(found.values())) > 1:
        said = ", ".join(f"{local} is {of}" for local, of in sorted(found.items()))
        raise ObjectRefused(ark, f"its local ids belong to different objects: {said}")
    chosen = next(iter(found.values()), ark)
    for local in wanted:
        if local not in found:
            tx.run(sql.ADD_LOCAL_ID, owner=owner, local_id=local, ark=chosen)
    return chosen


def _owner(tx: Transaction, name: str) -> int:
    return _number(tx, sql.FIND_OWNER, sql.ADD_OWNER, name)


def _number(tx: Transaction, find: Statement, add: Statement, name: str) -> int:
    """A name's number. When two transactions add it at once, one of them restarts and finds it."""
    row = tx.one(find, name=name)
    if row is None:
        tx.run(add, name=name)
        row = tx.one(find, name=name)
    return int(row[0])


# ---------------------------------------------------------------- intakes and outbox


def _keep_intake(tx: Transaction, intake: Intake, *, anew: bool = False) -> Intake:
    """The first caller decides what the batch started with, unless it starts again."""
    found = _intake(tx, intake.batch)
    if found is not None and not anew:
        return found
    if found is not None:
        tx.run(sql.DROP_INTAKE, batch=intake.batch)
    profile = json.dumps(dict(intake.profile), ensure_ascii=False)
    tx.run(sql.ADD_INTAKE, batch=intake.batch, profile=profile, problem=intake.problem)
    return intake


def _intake(tx: Transaction, batch: str) -> Intake | None:
    row = tx.one(sql.READ_INTAKE, batch=batch)
    if row is None:
        return None
    return Intake(batch, json.loads(row[0]), str(row[1]), None if row[2] is None else moment(row[2]))


def post(tx: Transaction, message: Message) -> bool:
    if tx.one(sql.FIND_MESSAGE, id=message.id) is not None:
        return False
    at = tx.one(ledger_statements.READ_WALL)[0]
    tx.run(
        sql.ADD_MESSAGE, id=message.id, kind=message.kind.value, item=message.item, occasion=message.occasion,
        recipient=message.to, body=message.body, at=at, batch=message.batch or message.item,
        sender=message.sender.value,
    )  # fmt: skip
    return True


def _resend(tx: Transaction, message_id: str) -> Message:
    """Refused recipients are retried; those that received it, only when all have."""
    found = _hold_message(tx, message_id)
    kept = tuple(each for each in found.recipients if each.state is Delivery.DELIVERED)
    again = () if found.state is Delivery.DELIVERED else kept
    tx.run(sql.RESEND_MESSAGE, id=message_id, recipients=_document(again))
    row = tx.one(sql.LOCK_MESSAGE, id=message_id)
    return read_message(row)


def _hold_message(tx: Transaction, message_id: str) -> Message:
    row = tx.one(sql.LOCK_MESSAGE, id=message_id)
    if row is None:
        raise UnknownName("message", message_id, "List them with: headgate messages list")
    return read_message(row)


def _document(recipients: Sequence[Recipient]) -> str | None:
    return json.dumps(plain(recipients), ensure_ascii=False) if recipients else None


def read_message(row: Row) -> Message:
    """A message from its row; in lists the body is left out."""
    number, kind, item, body, to, occasion, state, tries, problem, batch, sender, recipients, since, next_try = row
    known = tuple(parse(Recipient, each) for each in json.loads(recipients or "[]"))
    return Message(
        str(number), MessageKind(kind), str(item), str(body), str(to), str(occasion), Delivery(state), int(tries),
        str(problem), str(batch), Sender(sender), known, moment(since),
        moment(next_try) if state == Delivery.WAITING else None,
    )  # fmt: skip
