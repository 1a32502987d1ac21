"""Every statement of the queue, each with its sentence."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.queue.model import ALL
from headgate.stores.sql.database.sql_text import Statement

BATCH_COLUMNS = """i.id, i.state, i.profile, i.submitter, i.payload_url, i.type, i.mode, i.metadata, i.submit_id,
                   i.message, i.since, i.processing, i.failed, i.completed, i.made, i.report, i.crashes,
                   i.former, i.worker, i.token, i.lease, i.lease_until - {now}, i.principal"""
JOB_COLUMNS = """i.id, i.batch_id, i.state, i.last_successful, i.retry_count, i.priority, i.space_needed,
                 i.identifiers, i.configuration, i.message, i.since, i.crashes, i.former, i.worker, i.token, i.lease,
                 i.lease_until - {now}, i.principal"""
#: For a taken item: its collection, if that is on hold; null: it is not.
STANDING = "(select h.profile from hg_hold h where h.profile = i.profile) as standing"
#: The item is free: it was not taken, or its owner died.
_FREE = "(i.lease_until is null or i.lease_until <= {now})"
#: In that state and free, and the whole queue is not paused.
TAKEABLE = f"i.state = :state and {_FREE} and not exists (select 1 from hg_hold h where h.profile = '{ALL}')"
TAKING = (
    "worker = :worker, request_id = :request_id, lease = :lease, lease_until = {now} + :lease, principal = :principal"
)


@dataclass(frozen=True, slots=True, eq=False)
class ItemStatements:
    """Statements that are the same for batches and ingest jobs."""

    read: Statement
    lock: Statement
    find_free: Statement
    find_behind: Statement
    find_repeated: Statement
    take: Statement
    renew: Statement
    give_back: Statement
    drop: Statement
    is_free: Statement
    first_free: Statement
    find_dead: Statement
    free_dead: Statement
    free_late: Statement
    count: Statement


def _for_items(what: str, table: str, columns: str, order: str, behind: str) -> ItemStatements:
    source, taken = f"from {table} i", f"{columns}, {STANDING}"
    first, free = f"select {columns} {source}", f"i.state = :state and {_FREE}"
    repeated = "i.state = :state and i.request_id = :request_id and i.lease_until > {now}"
    owned = "id = :id and state = :state and token = :token and lease_until > {now} and {owned}"
    dead = "lease_until is not null and lease_until + :grace <= {now}"
    freed = f"update {table} set worker = '', lease = null, lease_until = null"
    return ItemStatements(
        read=Statement(f"A {what}.", f"select {columns} {source} where i.id = :id"),
        lock=Statement(
            f"A {what}, locked, and the current time.",
            f"select {columns}, {{wall}} {source} where i.id = :id {{for_update}}",
        ),
        find_free=Statement(
            f"The first {what} in a state that nobody has and that nobody else looks at.",
            f"select {taken} {source} where {TAKEABLE} order by {order} limit 1 {{skip_locked}}",
        ),
        find_behind=Statement(
            f"The first {what} behind a place, in a state, that nobody has.",
            f"select {taken} {source} where {TAKEABLE} and {behind} order by {order} limit 1 {{skip_locked}}",
        ),
        find_repeated=Statement(
            f"The {what} that this very request took already.",
            f"select {taken} {source} where {repeated} limit 1",
        ),
        take=Statement(f"A {what} is taken.", f"update {table} set token = :token, {TAKING} where id = :id"),
        renew=Statement(
            "Renew the lease of a living owner.",
            f"update {table} set lease = :lease, lease_until = {{now}} + :lease where {owned}",
        ),
        give_back=Statement(
            "Free an item, in the same state.",
            f"""update {table} set worker = '', lease = null, lease_until = null,
                       message = case when :message = '' then message else :message end
                where {owned}""",
        ),
        drop=Statement(f"A {what} is gone.", f"delete from {table} where id = :id"),
        is_free=Statement("Whether there is an item to take.", f"select 1 {source} where {TAKEABLE} limit 1"),
        first_free=Statement(f"The {what} that would be taken next.", f"{first} where {free} order by {order} limit 1"),
        find_dead=Statement(
            "Items whose owner's lease expired at least that long ago.",
            f"select id, worker, state from {table} where {dead} order by id limit :limit",
        ),
        free_dead=Statement("Free an item of a dead owner.", f"{freed} where id = :id and {dead}"),
        free_late=Statement(
            "Free an item whose owner reports after the lease expired, and before it was reaped.",
            f"{freed} where id = :id and state = :state and token = :token and lease_until <= {{now}}",
        ),
        count=Statement("Number of items in each state.", f"select state, count(*) from {table} group by state"),
    )


BATCHES = _for_items("batch", "hg_batch", BATCH_COLUMNS, "i.id", "i.id > :after")
JOBS = _for_items("job", "hg_ingest_job", JOB_COLUMNS, "i.priority, i.id", "{behind}")

# ---------------------------------------------------------------- making

READ_COUNTER = Statement("The last issued number.", "select value from hg_counter where name = :name")
ADD_COUNTER = Statement("Issue the first numbers.", "insert into hg_counter (name, value) values (:name, :count)")
RAISE_COUNTER = Statement("Issue more numbers.", "update hg_counter set value = value + :count where name = :name")
READ_WALL = Statement("The current time.", "select {wall}")
READ_SUBMITTED = Statement(
    "The batch of a request to submit.", f"select {BATCH_COLUMNS} from hg_batch i where i.submit_id = :submit_id"
)
ADD_BATCH = Statement(
    "A new batch.",
    """insert into hg_batch (id, state, profile, submitter, payload_url, type, mode, metadata, submit_id, message,
                             since, processing, failed, completed, made, worker, request_id, token)
       values (:id, :state, :profile, :submitter, :payload_url, :type, :mode, :metadata, :submit_id, :message,
               :at, 0, 0, 0, 0, '', '', 0)""",
)
ADD_JOB = Statement(
    "A new job.",
    """insert into hg_ingest_job (id, batch_id, position, state, retry_count, priority, space_needed, profile,
                                  identifiers, configuration, message, since, worker, request_id, token)
       values (:id, :batch, :position, :state, 0, :priority, 0, :profile, :identifiers, :configuration, :message,
               :at, '', '', 0)""",
)
COUNT_MADE = Statement(
    "Count that many more jobs of a batch.",
    "update hg_batch set made = made + :count, processing = processing + :count where id = :id",
)

# ---------------------------------------------------------------- moving

CHANGE_JOB = Statement(
    "Change a job, if it is still as it was read.",
    """update hg_ingest_job set state = :state, last_successful = :last_successful, retry_count = :retry_count,
              priority = :priority, space_needed = :space_needed, profile = :profile, identifiers = :identifiers,
              configuration = :configuration, message = :message, since = :since, crashes = :crashes,
              former = :former,
              worker = case when :drop_owner then '' else worker end,
              lease = case when :drop_owner then null else lease end,
              lease_until = case when :drop_owner then null else lease_until end
       where id = :id and state = :was and token = :token""",
)
CHANGE_BATCH = Statement(
    "Change a batch, if it is still as it was read.",
    """update hg_batch set state = :state, message = :message, since = :since, report = :report,
              crashes = :crashes, former = :former,
              worker = case when :drop_owner then '' else worker end,
              lease = case when :drop_owner then null else lease end,
              lease_until = case when :drop_owner then null else lease_until end
       where id = :id and state = :was and token = :token""",
)
COUNT_JOB = Statement(
    "Count a job of a batch that moved to another folder, or was removed.",
    """update hg_batch set processing = processing + :processing, failed = failed + :failed,
              completed = completed + :completed
       where id = :id""",
)
LOCK_JOBS_OF = Statement(
    "The jobs of a batch, locked, and whether each is taken.",
    "select id, state, lease_until > {now} from hg_ingest_job where batch_id = :batch order by id {for_update}",
)
DROP_JOBS_OF = Statement("Remove the jobs of a batch.", "delete from hg_ingest_job where batch_id = :batch")
LOCK_BATCH_STATE = Statement("The state of a batch, locked.", "select state from hg_batch where id = :id {for_update}")
RECORD = Statement(
    "Record an event in the history.",
    """insert into hg_history (at, noun, event, subject, batch_id, client, token, state_before, state_after, reason,
                               spent, principal)
       values (:at, :noun, :event, :subject, :batch, :who, :token, :before, :after, :reason, :spent, :principal)""",
)
READ_LAST_TOLD = Statement(
    "The newest event of a batch or an ingest job.",
    """select event, client, reason, state_after from hg_history
       where subject = :subject and noun = :noun order by at desc, id desc limit 1""",
)

# ---------------------------------------------------------------- holds

READ_HOLDS = Statement("All holds.", "select profile, reason, who, since from hg_hold order by profile")
READ_HOLD = Statement(
    "The hold of a collection.", "select profile, reason, who, since from hg_hold where profile = :profile"
)
ADD_HOLD = Statement(
    "Put a collection on hold; an existing hold keeps its reason.",
    "{insert_once} hg_hold (profile, reason, who, since) values (:profile, :reason, :who, :at) {or_leave}",
)
DROP_HOLD = Statement("Remove a hold.", "delete from hg_hold where profile = :profile")

# ---------------------------------------------------------------- daemons and queries

READ_REPORTABLE = Statement(
    "Batches whose last job has ended.",
    "select id from hg_batch where state in (:states*) and processing = 0 order by id limit :limit",
)

# ---------------------------------------------------------------- daemons that live

RENEW_DAEMON = Statement(
    "Renew a daemon's entry, with its steps.",
    """update hg_daemon set worker = :worker, steps = :steps, lease = :lease, lease_until = {now} + :lease
       where id = :id""",
)
ADD_DAEMON = Statement(
    "Add a daemon's entry.",
    """insert into hg_daemon (id, worker, steps, since, lease, lease_until)
       values (:id, :worker, :steps, {wall}, :lease, {now} + :lease)""",
)
DROP_DAEMON = Statement("Remove a daemon's entry.", "delete from hg_daemon where id = :id")
DROP_DEAD_DAEMONS = Statement("Remove daemons that died long ago.", "delete from hg_daemon where lease_until <= {now}")
READ_DAEMONS = Statement(
    "The running daemons.",
    """select id, worker, steps, since, lease, lease_until - {now} from hg_daemon
       where lease_until > {now} order by id""",
)
