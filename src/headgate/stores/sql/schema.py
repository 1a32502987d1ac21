"""The tables. Migrations lead to exactly this schema; a test proves it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Integer, Table, Text, false
from sqlalchemy import text as condition

from headgate.core.ledger.model import FAN_OUT, RUNNING, SETTLED, Kind, OnFailure
from headgate.core.ledger.ordering import Order
from headgate.core.locks.model import COMPATIBLE, Mode
from headgate.stores.sql import history_schema, log_schema
from headgate.stores.sql.database import columns
from headgate.stores.sql.database.columns import (
    MYSQL,
    ON_LEASE_CLOCK,
    Document,
    Key,
    Number,
    OrderKey,
    one_of,
    principal,
    text,
)
from headgate.stores.sql.fast_paths import quoted
from headgate.stores.sql.inventory import schema as inventory_schema
from headgate.stores.sql.ledger import expectation_schema, watch_schema
from headgate.stores.sql.queue import schema as queue_schema

metadata = columns.metadata
#: Tables that are declared in separate files.
history, log, inventory, queue = history_schema.history, log_schema.log, inventory_schema, queue_schema
watches, expectations = watch_schema, expectation_schema

MODES = tuple(mode.value for mode in Mode)
#: Modes in which a resource can have several locks.
TOGETHER = tuple(mode.value for mode in Mode if COMPATIBLE[mode, mode])
#: Chunks that need an operator or a retry.
UNSETTLED = f"status not in ({quoted(*SETTLED)})"

# Facts about the store itself: its tag, its clock.
meta = Table(
    "hg_meta",
    metadata,
    Column("name", text(64), primary_key=True),
    Column("value", text(255), nullable=False),
    **MYSQL,
)

# One row for each resource that was ever named; never deleted, so that its token only grows.
resource = Table(
    "hg_resource",
    metadata,
    Column("rkey", Key, primary_key=True, comment="sha-256 of the URI: exact, and of one size"),
    Column("uri", text(2048), nullable=False),
    Column("token", BigInteger, nullable=False, comment="of the newest grant"),
    Column("holders", Integer, nullable=False),
    Column("mode", text(9), nullable=False, comment="of the holders, while there are any"),
    Column("waiting", Integer, nullable=False),
    Column("known", Boolean(create_constraint=False), nullable=False, comment="false: forgotten, token kept"),
    CheckConstraint(one_of("mode", MODES), name="hg_resource_mode"),
    # An exclusive lock is the only one.
    CheckConstraint(f"holders >= 0 and ({one_of('mode', TOGETHER)} or holders <= 1)", name="hg_resource_alone"),
    CheckConstraint("waiting >= 0", name="hg_resource_waiting"),
    **MYSQL,
)

lock = Table(
    "hg_lock",
    metadata,
    Column("id", text(40), primary_key=True),
    Column("rkey", Key, nullable=False),
    Column("client", text(255), nullable=False),
    Column("mode", text(9), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("lease", BigInteger, comment="microseconds; null: persistent"),
    Column("lease_until", BigInteger, comment="on the lease clock", info=ON_LEASE_CLOCK),
    Column("lock_delay", BigInteger, nullable=False, comment="stays closed so long after an unclean end"),
    Column("count", Integer, nullable=False),
    Column("request_id", text(200), nullable=False),
    Column("owner", text(255), nullable=False),
    Column("note", text(1000), nullable=False),
    principal("the owner"),
    CheckConstraint(one_of("mode", MODES), name="hg_lock_mode"),
    CheckConstraint("count >= 1", name="hg_lock_count"),
    # A token is issued only once on a resource.
    Index("hg_lock_token", "rkey", "token", unique=True),
    # No index on lease_until: every grant would pay for it, and only the reaper, which may scan, would use it.
    sqlite_with_rowid=False,
    **MYSQL,
)

# A request that waits; its place in each resource's queue is in hg_wait.
ticket = Table(
    "hg_ticket",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("request_id", text(200), nullable=False),
    Column("client", text(255), nullable=False),
    Column("owner", text(255), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("alive_until", BigInteger, nullable=False, comment="on the lease clock", info=ON_LEASE_CLOCK),
    Column("channel", text(64), nullable=False, comment="where its process listens"),
    Column("lock_id", text(40), nullable=False, comment="of the grant; empty: for several resources"),
    Column("lease", BigInteger, comment="microseconds; null: persistent"),
    Column("lock_delay", BigInteger, nullable=False),
    Column("note", text(1000), nullable=False),
    principal("the owner of the grant"),
    sqlite_autoincrement=True,
    **MYSQL,
)

wait = Table(
    "hg_wait",
    metadata,
    Column("rkey", Key, primary_key=True),
    Column("ticket", BigInteger, primary_key=True, autoincrement=False),
    Column("mode", text(9), nullable=False),
    CheckConstraint(one_of("mode", MODES), name="hg_wait_mode"),
    Index("hg_wait_ticket", "ticket"),
    **MYSQL,
)

# A client was refused on a resource within a minute; the entry of the history counts how often.
refusal = Table(
    "hg_refusal",
    metadata,
    Column("rkey", Key, primary_key=True),
    Column("client", text(255), primary_key=True),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("history_id", BigInteger, nullable=False),
    **MYSQL,
)

client = Table(
    "hg_client",
    metadata,
    Column("name", text(255), primary_key=True),
    Column("since", BigInteger, nullable=False),
    **MYSQL,
)

# ---------------------------------------------------------------- the ledger

KINDS = tuple(kind.value for kind in Kind)

dataset = Table(
    "hg_dataset",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", text(255), nullable=False),
    Column("uri", text(2048), nullable=False),
    Column("dataid_order", text(10), nullable=False),
    Column("settings", Document, nullable=False, comment="JSON"),
    Column("secrets", Document, nullable=False, comment="JSON: names of its secrets, each with its version"),
    Column("secret_jobs", Document, comment="JSON: names of the jobs that may hold its secrets; null: any"),
    Column("expect", Document, comment="JSON: which data ids it should have, and when; null: nothing is expected"),
    CheckConstraint(one_of("dataid_order", tuple(Order)), name="hg_dataset_order"),
    Index("hg_dataset_name", "name", unique=True),
    **MYSQL,
)

# Job 0 is `external`: data made elsewhere.
job = Table(
    "hg_job",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", text(255), nullable=False),
    Column("environment", Document, nullable=False, comment="JSON"),
    Column("max_attempts", Integer, nullable=False),
    Column("max_crashes", Integer, nullable=False),
    Column("max_interruptions", Integer, nullable=False, server_default="10"),
    Column("stop_exit", text(10), nullable=False, server_default="interrupt", comment="interrupt or trust"),
    Column("retry_delay", BigInteger, nullable=False, comment="microseconds"),
    Column("on_failure", text(10), nullable=False),
    Column("paused", text(1000), nullable=False, comment="why; empty: it is not"),
    Column("recur", BigInteger, nullable=False, server_default="0", comment="microseconds; 0: never"),
    Column(
        "mapped",
        Boolean(create_constraint=False),
        nullable=False,
        server_default=false(),
        comment="whether its claims have a read set",
    ),
    Column(
        "commands",
        text(64),
        nullable=False,
        server_default="",
        comment="SHA-256 of the pipeline file whose commands were run last; empty: none were",
    ),
    Column("key_check", text(255), nullable=False, comment="proves a key without telling it; empty: it has none"),
    CheckConstraint(one_of("on_failure", tuple(OnFailure)), name="hg_job_on_failure"),
    Index("hg_job_name", "name", unique=True),
    **MYSQL,
)

job_dataset = Table(
    "hg_job_dataset",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    # A job names a dataset once: as input and output it could never start.
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("kind", text(6), nullable=False),
    Column("position", Integer, nullable=False, comment="the bit by which an input is missing"),
    Column("mapping", Document, comment="JSON; null: the same data id"),
    CheckConstraint(one_of("kind", (*KINDS, FAN_OUT)), name="hg_job_dataset_kind"),
    Index("hg_job_dataset_dataset", "dataset_id", "kind"),
    **MYSQL,
)

# Constraints of each chunk. The status is the lock.
chunk = Table(
    "hg_chunk",
    metadata,
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("dataid", text(255), primary_key=True),
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("kind", text(6), primary_key=True),
    Column("order_key", OrderKey, nullable=False),
    Column("status", text(40), nullable=False, comment="any word; an unknown one blocks"),
    Column("former", text(40), nullable=False, comment="what unhold brings back; empty: no row"),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False, server_default="0", comment="workers that were asked to stop"),
    Column("token", BigInteger, nullable=False),
    Column("worker", text(255), nullable=False),
    Column("request_id", text(200), nullable=False, comment="of the newest claim, by which a repeat is recognised"),
    Column("lease", BigInteger, comment="microseconds"),
    Column("lease_until", BigInteger, comment="on the lease clock; far off: by hand", info=ON_LEASE_CLOCK),
    Column("forced", Boolean(create_constraint=False), nullable=False),
    Column("retry_after", BigInteger, comment="on the lease clock", info=ON_LEASE_CLOCK),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("started", BigInteger, comment="microseconds since 1970"),
    Column("message", text(1000), nullable=False),
    principal("the owner of the newest claim"),
    CheckConstraint(one_of("kind", KINDS), name="hg_chunk_kind"),
    # Only RUNNING rows have a lease, so that expired claims are searched for among these alone.
    CheckConstraint(f"(lease_until is null) = (status <> '{RUNNING}')", name="hg_chunk_lease"),
    Index(
        "hg_chunk_lease_until", "job_id", "lease_until",
        postgresql_where=condition("lease_until is not null"), sqlite_where=condition("lease_until is not null"),
    ),
    # Chunks that need an operator or a retry; running and finished ones are left out, on databases with partial
    # indexes.
    Index(
        "hg_chunk_trouble", "job_id", "status",
        postgresql_where=condition(UNSETTLED),
        sqlite_where=condition(UNSETTLED),
    ),
    Index("hg_chunk_order", "dataset_id", "order_key"),
    sqlite_with_rowid=False,
    **MYSQL,
)  # fmt: skip

# Chunks that may be claimable, and no others: find_next reads the head of this list, never the finished chunks.
candidate = Table(
    "hg_candidate",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("dataid", text(255), primary_key=True),
    Column("order_key", OrderKey, nullable=False),
    Column("place", Integer, nullable=False, comment="0: resubmitted, goes first; 1: all others"),
    Column("missing", BigInteger, nullable=False, comment="a bit for each input that is not READY"),
    Column("not_before", BigInteger, nullable=False, comment="on the lease clock", info=ON_LEASE_CLOCK),
    Index("hg_candidate_next", "job_id", "missing", "place", "order_key"),
    sqlite_with_rowid=False,
    **MYSQL,
)

# Finished chunks of recurring jobs: find_next moves due ones to hg_candidate.
recurrence = Table(
    "hg_recurrence",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("dataid", text(255), primary_key=True),
    Column("order_key", OrderKey, nullable=False),
    Column("waits", Integer, nullable=False, comment="1: it is not due; 0: it was, and is a candidate"),
    Column("done", BigInteger, nullable=False, comment="microseconds since 1970"),
    Index("hg_recurrence_due", "job_id", "waits", "done"),
    sqlite_with_rowid=False,
    **MYSQL,
)

# Changes of chunks that mapped jobs read: appended with the change, and folded into hg_candidate by find_next.
arrival = Table(
    "hg_arrival",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("job_id", Integer, nullable=False, comment="the job that reads it"),
    Column("dataset_id", Integer, nullable=False, comment="0: the data id is one of the job"),
    Column("dataid", text(255), nullable=False),
    Column("ready", Boolean(create_constraint=False), nullable=False, comment="false: it is READY no longer"),
    Index("hg_arrival_job", "job_id", "number"),
    sqlite_autoincrement=True,
    **MYSQL,
)

# Problems that need a person: opened and closed in the transaction of the change that they report.
incident = Table(
    "hg_incident",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("kind", text(40), nullable=False, comment="any word"),
    Column("job_id", Integer, nullable=False, comment="0: none"),
    Column("subject", text(511), nullable=False, comment="the data id, or what else the kind is about"),
    Column("is_open", Integer, comment="1; null: it is closed"),
    Column("message", text(1000), nullable=False),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("at", BigInteger, nullable=False, comment="when it happened last"),
    Column("count", Integer, nullable=False),
    Column("closed", BigInteger),
    Column("closed_by", text(40), nullable=False, comment="the event"),
    Column("acknowledged_by", text(255), nullable=False),
    Column("snoozed_until", BigInteger),
    Column("due", BigInteger, comment="when a notice is due; null: everything was reported"),
    Column("reported", Boolean(create_constraint=False), nullable=False, comment="a notice has said that it opened"),
    # A subject has one open incident of a kind; closed ones have null, which equals nothing.
    Index("hg_incident_open", "job_id", "subject", "is_open", "kind", unique=True),
    Index("hg_incident_is_open", "is_open", "since"),
    Index("hg_incident_due", "due"),
    sqlite_autoincrement=True,
    **MYSQL,
)

# The read sets of claims of mapped jobs: while the claim is running, each row acts as a shared lock.
read = Table(
    "hg_read",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("dataid", text(255), primary_key=True, comment="of the job"),
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("source", text(255), primary_key=True, comment="the data id that is read"),
    Column("version", BigInteger, nullable=False, comment="which READY: its token, or when it was published"),
    Column("newer", Boolean(create_constraint=False), nullable=False, comment="it is newer than what was read"),
    Index("hg_read_source", "dataset_id", "source"),
    sqlite_with_rowid=False,
    **MYSQL,
)

# Chunks that were made by fan-out, with the data id of the job that each was made from.
part = Table(
    "hg_part",
    metadata,
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("dataid", text(255), primary_key=True, comment="of the dataset that the job fans out to"),
    Column("job_id", Integer, nullable=False),
    Column("source", text(255), nullable=False, comment="the job's data id that it was made from"),
    Column("listed", Boolean(create_constraint=False), nullable=False, comment="false: the last success left it out"),
    Index("hg_part_source", "job_id", "source"),
    sqlite_with_rowid=False,
    **MYSQL,
)

# Data ids of mapped jobs that an operator closed: nothing else arrives for them.
closed = Table(
    "hg_closed",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("dataid", text(255), primary_key=True),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    **MYSQL,
)

# Notices that were sent in the last hour, or are deferred because there were too many.
notice = Table(
    "hg_notice",
    metadata,
    Column("id", text(200), primary_key=True, comment="of its message"),
    Column("recipient", text(255), nullable=False, comment="its name in the settings"),
    Column("at", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("count", Integer, nullable=False, comment="incidents"),
    Column("kept", Document, comment="JSON: what it would have said, while it is kept back"),
    Index("hg_notice_recipient", "recipient", "at"),
    **MYSQL,
)

# The starting point of find_next, so that it does not scan everything claimed since the oldest snapshot each time. Used
# on PostgreSQL, where removed entries stay in an index until no snapshot can see them; empty elsewhere.
mark = Table(
    "hg_mark",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("order_key", OrderKey, nullable=False, comment="nothing that may be claimable comes before it"),
    Column("lease_until", BigInteger, nullable=False, comment="no claim runs out before it", info=ON_LEASE_CLOCK),
    **MYSQL,
)

# The source of claim tokens: one row of growing numbers for the whole store.
token = Table(
    "hg_token",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    sqlite_autoincrement=True,
    **MYSQL,
)

# ---------------------------------------------------------------- credentials

# A secret, sealed for one holder. Nothing in the store can open it.
credential = Table(
    "hg_credential",
    metadata,
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("name", text(255), primary_key=True),
    Column("job_id", Integer, primary_key=True, autoincrement=False, comment="0: the master key alone opens it"),
    Column("generation", Integer, primary_key=True, autoincrement=False, comment="which of the job's keys"),
    Column("version", Integer, nullable=False, comment="of the value; the dataset names the newest"),
    Column("wrap", text(80), nullable=False, comment="the data key under the job's key"),
    Column("sealed", Document, nullable=False, comment="nonce and ciphertext"),
    Column("master_id", Integer, nullable=False, comment="which master key opens it too; 0: none"),
    Column("master_wrap", text(80), nullable=False, comment="the data key under that"),
    # A copy that nobody could open is not valid.
    CheckConstraint("wrap <> '' or master_wrap <> ''", name="hg_credential_opens"),
    Index("hg_credential_job", "job_id"),
    **MYSQL,
)

# The wrapping key of a job, sealed with the master key, so that new secrets can be sealed for the job without its key.
escrow = Table(
    "hg_escrow",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False),
    Column("generation", Integer, primary_key=True, autoincrement=False, comment="which of the job's keys"),
    Column("master_id", Integer, nullable=False),
    Column("master_wrap", text(80), nullable=False),
    **MYSQL,
)

# ---------------------------------------------------------------- the service

# API tokens with their scopes.
api_token = Table(
    "hg_api_token",
    metadata,
    Column("id", text(12), primary_key=True, comment="its public part"),
    Column("name", text(255), nullable=False),
    Column("scopes", Text, nullable=False, comment="JSON"),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("revoked", Boolean, nullable=False),
    Column("digest", text(64), nullable=False, comment="HMAC-SHA-256 of the whole token"),
    Column("salt", text(64), nullable=False, server_default="", comment="hex; of its digest"),
    principal("the owner of what is taken with it"),
    **MYSQL,
)

# Browser sessions, and sign-in codes.
session = Table(
    "hg_session",
    metadata,
    Column("id", text(64), primary_key=True, comment="SHA-256 of what the browser keeps"),
    Column("kind", text(10), nullable=False, comment="session, or code: it signs a browser in once"),
    Column("token_id", text(12), nullable=False, comment="the API token that it belongs to"),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    CheckConstraint(one_of("kind", ("session", "code")), name="hg_session_kind"),
    Index("hg_session_token", "token_id", "kind"),
    Index("hg_session_expires", "expires_at"),
    **MYSQL,
)

# Requests with an idempotency key that took effect: written in the transaction of the effect, kept for a day.
repeat = Table(
    "hg_repeat",
    metadata,
    Column("id", text(64), primary_key=True, comment="sha-256 of principal and key"),
    Column("principal", text(255), nullable=False),
    Column("digest", text(64), nullable=False, comment="sha-256 of the request"),
    Column("nonce", text(40), nullable=False, comment="of the attempt that took effect"),
    Column("result", Document, nullable=False, comment="what the transaction returned, as JSON"),
    Column("status", Integer, comment="of the answer"),
    Column("answer", Document, comment="its body, without secrets"),
    Column("at", BigInteger, nullable=False, comment="microseconds since 1970"),
    Index("hg_repeat_at", "at"),
    **MYSQL,
)
