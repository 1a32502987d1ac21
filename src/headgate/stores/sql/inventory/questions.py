"""Queries about the inventory with filters."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, or_, select, text

from headgate.core.inventory import Delivery, MessageFilter, ObjectFilter, StoredObject
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.inventory import schema
from headgate.stores.sql.inventory import statements as sql


def ask_objects(database: Database, which: ObjectFilter) -> Sequence[StoredObject]:
    """Objects, by ARK."""
    item, owner = schema.stored_object.c, schema.owner.c
    question = (
        select(
            item.ark, owner.name, item.erc_who, item.erc_what, item.erc_when, item.version, item.created, item.modified
        )
        .join(schema.owner, owner.id == item.owner_id)
        .order_by(item.ark)
    )
    if which.owner is not None:
        question = question.where(owner.name == which.owner)
    if which.ark is not None:
        question = question.where(item.ark == which.ark)
    if which.after is not None:
        question = question.where(item.ark > which.after)
    if which.local is not None:
        named = select(schema.local_id.c.ark).where(schema.local_id.c.local_id == which.local)
        question = question.where(item.ark.in_(named))
    if which.collection is not None:
        member, collection = schema.object_collection.c, schema.collection.c
        members = (
            select(member.object_id)
            .join(schema.collection, collection.id == member.collection_id)
            .where(collection.name == which.collection)
        )
        question = question.where(item.id.in_(members))
    if which.limit is not None:
        question = question.limit(which.limit)
    return database.read(lambda tx: [_read(tx, row) for row in tx.ask(question)])


def ask_messages(database: Database, which: MessageFilter) -> Sequence[Row]:
    """Messages by id, without their bodies."""
    message = schema.outbox
    question = select(text(sql.LISTED_COLUMNS)).select_from(message).order_by(message.c.id).limit(which.limit)
    if which.item is not None:
        question = question.where(message.c.item == which.item)
    if which.failed:
        waits = and_(message.c.state == Delivery.WAITING.value, message.c.tries > 0)
        question = question.where(or_(message.c.state == Delivery.GIVEN_UP.value, waits))
    if which.after is not None:
        question = question.where(message.c.id > which.after)
    return database.read(lambda tx: tx.ask(question))


def _read(tx: Transaction, row: Row) -> StoredObject:
    ark, owner, who, what, when, version, created, modified = row
    collections = tuple(str(name) for (name,) in tx.all(sql.COLLECTIONS_OF, ark=ark))
    local = tuple(str(name) for (name,) in tx.all(sql.LOCAL_IDS_OF, ark=ark))
    return StoredObject(
        str(ark), str(owner), collections, local, str(who), str(what), str(when), int(version), moment(created),
        moment(modified),
    )  # fmt: skip
