"""Every statement of the inventory and the outbox, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

FIND_OWNER = Statement("An owner's number.", "select id from hg_owner where name = :name")
ADD_OWNER = Statement("A new owner.", "insert into hg_owner (name) values (:name)")
FIND_COLLECTION = Statement("A collection's number.", "select id from hg_collection where name = :name")
ADD_COLLECTION = Statement("A new collection.", "insert into hg_collection (name) values (:name)")

READ_LOCAL_IDS = Statement(
    "The objects that an owner's local ids belong to.",
    """select l.local_id, l.ark from hg_local_id l join hg_owner o on o.id = l.owner_id
       where o.name = :owner and l.local_id in (:ids*)""",
)
LOCK_LOCAL_IDS = Statement(
    "The same, locked.",
    """select local_id, ark from hg_local_id where owner_id = :owner and local_id in (:ids*) order by local_id
       {for_update}""",
)
ADD_LOCAL_ID = Statement(
    "Assign a local id to an object.",
    "insert into hg_local_id (owner_id, local_id, ark) values (:owner, :local_id, :ark)",
)
LOCAL_IDS_OF = Statement(
    "An object's local ids.", "select local_id from hg_local_id where ark = :ark order by local_id"
)

LOCK_OBJECT = Statement(
    "An object, locked: its number, owner and newest version.",
    "select id, owner_id, version from hg_object where ark = :ark {for_update}",
)
ADD_OBJECT = Statement(
    "A new object, without recorded versions.",
    """insert into hg_object (ark, owner_id, version, erc_who, erc_what, erc_when, created, modified)
       values (:ark, :owner, 0, '', '', '', :at, :at)""",
)
CHANGE_OBJECT = Statement(
    "Set the newest version of an object.",
    """update hg_object set version = :version, erc_who = :who, erc_what = :what, erc_when = :when, modified = :at
       where id = :id and version < :version""",
)
READ_OBJECT_OWNER = Statement(
    "The owner and the newest version of an object.",
    "select o.name, i.version from hg_object i join hg_owner o on o.id = i.owner_id where i.ark = :ark",
)
HAS_MEMBERSHIP = Statement(
    "Whether an object is in a collection.",
    "select 1 from hg_object_collection where object_id = :object and collection_id = :collection",
)
ADD_MEMBERSHIP = Statement(
    "Add an object to a collection.",
    "insert into hg_object_collection (object_id, collection_id) values (:object, :collection)",
)
COLLECTIONS_OF = Statement(
    "An object's collections.",
    """select c.name from hg_object_collection m join hg_collection c on c.id = m.collection_id
       join hg_object i on i.id = m.object_id where i.ark = :ark order by c.name""",
)

FIND_INGEST = Statement(
    "The object and version that an ingest job has recorded.",
    "select i.ark, g.number from hg_ingest g join hg_object i on i.id = g.object_id where g.job = :job",
)
MAKER_OF = Statement(
    "The ingest job of a version.", "select job from hg_ingest where object_id = :object and number = :number"
)
ADD_INGEST = Statement(
    "The origin of a version.",
    """insert into hg_ingest (job, batch, object_id, number, profile, submitter, payload, type, at)
       values (:job, :batch, :object, :number, :profile, :submitter, :payload, :type, :at)""",
)
ADD_VERSION = Statement(
    "A version of an object.",
    """insert into hg_object_version (object_id, number, created, size, files)
       values (:object, :number, :created, :size, :files)""",
)
ADD_FILE = Statement(
    "A file of a version.",
    """insert into hg_object_file (object_id, number, position, name, size, digest, since, digests)
       values (:object, :number, :position, :name, :size, :digest, :since, :digests)""",
)
READ_VERSIONS = Statement(
    "Every version of an object, oldest first.",
    """select v.number, v.created, v.size, v.files, g.job, g.batch, g.profile from hg_object_version v
       join hg_object i on i.id = v.object_id
       join hg_ingest g on g.object_id = v.object_id and g.number = v.number where i.ark = :ark order by v.number""",
)
READ_FILES = Statement(
    "The files of a version.",
    """select f.name, f.size, f.digest, f.since, f.digests
       from hg_object_file f join hg_object i on i.id = f.object_id
       where i.ark = :ark and f.number = :number and f.position >= :start order by f.position limit :limit""",
)

DROP_OBJECT = tuple(
    Statement(f"What {table} knows of an object goes.", f"delete from {table} where {column} = :object")
    for table, column in (
        ("hg_object_file", "object_id"), ("hg_ingest", "object_id"), ("hg_object_version", "object_id"),
        ("hg_object_collection", "object_id"), ("hg_object", "id"),
    )
)  # fmt: skip
DROP_LOCAL_IDS = Statement("Release an object's local ids.", "delete from hg_local_id where ark = :ark")

READ_INTAKE = Statement("The intake of a batch.", "select profile, problem, at from hg_intake where batch = :batch")
ADD_INTAKE = Statement(
    "Store the intake of a batch.",
    "insert into hg_intake (batch, profile, problem, at) values (:batch, :profile, :problem, {wall})",
)
SET_PROBLEM = Statement(
    "Record that a batch's payload yielded no jobs.", "update hg_intake set problem = :problem where batch = :batch"
)
DROP_INTAKE = Statement("Remove the intake of a batch.", "delete from hg_intake where batch = :batch")
DROP_MESSAGES = Statement(
    "Remove delivered messages about an item; undelivered ones stay.",
    "delete from hg_outbox where (item = :item or batch = :item) and state = 'delivered'",
)
DROP_LATE_MESSAGES = Statement(
    "Remove messages a day after their delivery, if their batch no longer exists.",
    """delete from hg_outbox where state = 'delivered' and since < {wall} - 86400000000
       and not exists (select 1 from hg_intake i where i.batch = hg_outbox.batch)""",
)

_WITHOUT_BODY = "recipient, occasion, state, tries, problem, batch, sender, recipients, since, next_try"
MESSAGE_COLUMNS = f"id, kind, item, body, {_WITHOUT_BODY}"
LISTED_COLUMNS = f"id, kind, item, '', {_WITHOUT_BODY}"
FIND_MESSAGE = Statement("A message.", f"select {MESSAGE_COLUMNS} from hg_outbox where id = :id")
LOCK_MESSAGE = Statement("A message, locked.", f"select {LISTED_COLUMNS} from hg_outbox where id = :id {{for_update}}")
READ_DUE = Statement(
    "Due messages of the messenger.",
    f"""select {MESSAGE_COLUMNS} from hg_outbox
        where state = 'waiting' and next_try <= {{wall}} and sender = 'messenger' order by next_try limit :limit""",
)
ADD_MESSAGE = Statement(
    "Add a waiting message.",
    """insert into hg_outbox (id, kind, item, occasion, recipient, body, state, tries, problem, since, next_try, batch,
                              sender)
       values (:id, :kind, :item, :occasion, :recipient, :body, 'waiting', 0, '', :at, :at, :batch, :sender)""",
)
SETTLE_MESSAGE = Statement(
    "Record the final state of a message.",
    """update hg_outbox set state = :state, problem = :problem, recipients = :recipients, tries = tries + 1,
              since = {wall}
       where id = :id and state in (:before*)""",
)
DELAY_MESSAGE = Statement(
    "Record a failed delivery attempt.",
    """update hg_outbox set tries = tries + 1, problem = :problem, next_try = {wall} + :pause,
              recipients = :recipients, sender = 'messenger'
       where id = :id and state = 'waiting'""",
)
RESEND_MESSAGE = Statement(
    "Make a message wait to be sent again.",
    """update hg_outbox set state = 'waiting', tries = 0, since = {wall}, next_try = {wall}, recipients = :recipients,
              sender = 'messenger'
       where id = :id""",
)
DISCARD_MESSAGE = Statement("Remove a message.", "delete from hg_outbox where id = :id")
