"""The inventory's tables, and the outbox beside it."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, Table

from headgate.core.inventory import Delivery, MessageKind, Sender
from headgate.stores.sql.database.columns import MYSQL, Document, Number, metadata, one_of, text

owner = Table(
    "hg_owner",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("name", text(255), nullable=False, unique=True),
    **MYSQL,
)

collection = Table(
    "hg_collection",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("name", text(255), nullable=False, unique=True, comment="the ledger's dataset, or an ARK"),
    **MYSQL,
)

stored_object = Table(
    "hg_object",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("ark", text(255), nullable=False, unique=True),
    Column("owner_id", BigInteger, nullable=False),
    Column("version", Integer, nullable=False, comment="its newest version"),
    Column("erc_who", Document, nullable=False),
    Column("erc_what", Document, nullable=False),
    Column("erc_when", Document, nullable=False),
    Column("created", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("modified", BigInteger, nullable=False),
    Index("hg_object_owner", "owner_id"),
    **MYSQL,
)

object_collection = Table(
    "hg_object_collection",
    metadata,
    Column("object_id", BigInteger, primary_key=True, autoincrement=False),
    Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
    Index("hg_object_collection_members", "collection_id"),
    **MYSQL,
)

version = Table(
    "hg_object_version",
    metadata,
    Column("object_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("created", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("files", Integer, nullable=False),
    CheckConstraint("number > 0", name="hg_object_version_number"),
    **MYSQL,
)

file = Table(
    "hg_object_file",
    metadata,
    Column("object_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False, comment="the version"),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", text(1000), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", text(64), nullable=False, comment="sha256"),
    Column("since", Integer, nullable=False, comment="the version in which these bytes came"),
    Column("digests", Document, comment="JSON: further digests by algorithm"),
    **MYSQL,
)

# One owner's local id names one object forever: the first to use it decides.
local_id = Table(
    "hg_local_id",
    metadata,
    Column("owner_id", BigInteger, primary_key=True, autoincrement=False),
    Column("local_id", text(255), primary_key=True),
    Column("ark", text(255), nullable=False, comment="its object may not be stored yet"),
    Index("hg_local_id_ark", "ark"),
    **MYSQL,
)

# The origin of each version. An ingest job makes one version, and no version has two ingest jobs.
ingest = Table(
    "hg_ingest",
    metadata,
    Column("job", text(20), primary_key=True),
    Column("batch", text(20), nullable=False),
    Column("object_id", BigInteger, nullable=False),
    Column("number", Integer, nullable=False, comment="the version"),
    Column("profile", text(255), nullable=False),
    Column("submitter", text(255), nullable=False),
    Column("payload", text(2048), nullable=False),
    Column("type", text(40), nullable=False),
    Column("at", BigInteger, nullable=False, comment="when it was recorded"),
    Index("hg_ingest_version", "object_id", "number", unique=True),
    **MYSQL,
)

intake = Table(
    "hg_intake",
    metadata,
    Column("batch", text(20), primary_key=True),
    Column("profile", Document, nullable=False, comment="JSON: the profile that the batch started with"),
    Column("problem", Document, nullable=False, comment="why its payload gave no jobs"),
    Column("at", BigInteger, comment="when it was kept"),
    **MYSQL,
)

outbox = Table(
    "hg_outbox",
    metadata,
    Column("id", text(200), primary_key=True, comment="the same however often it is sent"),
    Column("kind", text(20), nullable=False),
    Column("item", text(20), nullable=False, comment="the batch or ingest job that it tells of"),
    Column("occasion", text(200), nullable=False),
    Column("recipient", text(2048), nullable=False),
    Column("body", Document, nullable=False),
    Column("state", text(20), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("problem", text(1000), nullable=False),
    Column("since", BigInteger, nullable=False, comment="in this state"),
    Column("next_try", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("batch", text(20), nullable=False, server_default="", comment="of the item"),
    Column("sender", text(20), nullable=False, server_default=Sender.MESSENGER.value, comment="who sends it"),
    Column("recipients", Document, comment="JSON: what became of each recipient of a mail"),
    CheckConstraint(one_of("kind", tuple(MessageKind)), name="hg_outbox_kind"),
    CheckConstraint(one_of("state", tuple(Delivery)), name="hg_outbox_state"),
    Index("hg_outbox_next", "state", "next_try"),
    Index("hg_outbox_item", "item"),
    Index("hg_outbox_batch", "batch"),
    **MYSQL,
)
