"""Every statement of the ledger, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

ROW_COLUMNS = """c.dataset_id, c.dataid, c.job_id, c.kind, c.status, c.former, c.attempt, c.failures, c.crashes,
                 c.token, c.worker, c.lease, c.lease_until - {now}, c.forced, c.retry_after - {now}, c.since,
                 c.started, c.message, c.principal, c.interruptions"""
_JOB_COLUMNS = """j.id, j.name, j.environment, j.max_attempts, j.max_crashes, j.max_interruptions, j.retry_delay,
                  j.on_failure, j.stop_exit, j.paused, j.recur, j.key_check"""
_DATASET_COLUMNS = "d.id, d.name, d.uri, d.dataid_order, d.settings, d.secrets, d.secret_jobs, d.expect"
#: Whether a job reads by mappings what this one makes.
_READ_MAPPED = """k.kind <> 'INPUT' and exists (select 1 from hg_job_dataset m join hg_job n on n.id = m.job_id
                                          where m.dataset_id = d.id and m.kind = 'INPUT' and n.mapped)"""
_SHAPE = """from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
            where k.job_id = :job order by d.id"""

# ---------------------------------------------------------------- definitions

READ_JOB = Statement("One job, by its name.", f"select {_JOB_COLUMNS} from hg_job j where j.name = :name")
KNOW_JOB = Statement(
    "One job with its datasets, a row each: the stamp of all definitions, and whether another job reads its outputs.",
    f"""select s.value, k.kind = 'OUTPUT' and exists (select 1 from hg_job_dataset i
                                                      where i.dataset_id = d.id and i.kind = 'INPUT'),
               j.mapped or {_READ_MAPPED}, {_JOB_COLUMNS}, k.kind, k.position, {_DATASET_COLUMNS}, k.mapping, 0
        from hg_meta s, hg_job j join hg_job_dataset k on k.job_id = j.id join hg_dataset d on d.id = k.dataset_id
        where s.name = 'definitions' and j.name = :name order by d.id""",
)
STAMP_DEFINITIONS = Statement(
    "Change the stamp of the definitions.", "update hg_meta set value = :stamp where name = 'definitions'"
)
LOCK_JOB = Statement("One job, locked.", f"select {_JOB_COLUMNS} from hg_job j where j.name = :name {{for_update}}")
READ_JOBS = Statement("All jobs.", f"select {_JOB_COLUMNS} from hg_job j order by j.name")
READ_JOB_NAMES = Statement("The names of all jobs.", "select id, name from hg_job")
READ_LINKS = Statement(
    "The inputs and outputs of every job.",
    "select job_id, dataset_id, kind, mapping from hg_job_dataset order by job_id, kind, position",
)
READ_SHAPE = Statement(
    "The inputs and outputs of a job.",
    f"select k.kind, k.position, {_DATASET_COLUMNS}, k.mapping, {_READ_MAPPED}, 0 {_SHAPE}",
)
SHARE_SHAPE = Statement(
    "The same, with a shared lock on its datasets.",
    f"""select k.kind, k.position, {_DATASET_COLUMNS}, k.mapping, {_READ_MAPPED}, {{share_dataset}} {_SHAPE}
        {{share_rows}}""",
)
READ_DATASETS = Statement("All datasets.", f"select {_DATASET_COLUMNS} from hg_dataset d order by d.name")
READ_DATASET = Statement(
    "One dataset, by its name.", f"select {_DATASET_COLUMNS} from hg_dataset d where d.name = :name"
)
SHARE_DATASET = Statement(
    "The same, under a shared lock.",
    f"select {_DATASET_COLUMNS}, {{share_dataset}} from hg_dataset d where d.name = :name {{share_rows}}",
)
OWN_DATASETS = Statement(
    "Lock datasets against claims and definitions until the transaction ends.",
    f"""select {_DATASET_COLUMNS}, {{own_dataset}} from hg_dataset d where d.name in (:names*)
        order by d.id {{own_rows}}""",
)
READ_NAMED = Statement(
    "Datasets by their names.", f"select {_DATASET_COLUMNS} from hg_dataset d where d.name in (:names*)"
)
ADD_DATASET = Statement(
    "A new dataset.",
    """insert into hg_dataset (name, uri, dataid_order, settings, secrets, secret_jobs, expect)
       values (:name, :uri, :dataid_order, :settings, :secrets, :secret_jobs, :expect)""",
)
CHANGE_DATASET = Statement(
    "Change the definition of a dataset.",
    """update hg_dataset set uri = :uri, dataid_order = :dataid_order, settings = :settings, secrets = :secrets,
              secret_jobs = :secret_jobs, expect = :expect
       where id = :id""",
)
HAS_CHUNKS = Statement("Whether a dataset has any chunk.", "select 1 from hg_chunk where dataset_id = :dataset limit 1")
HAS_READY = Statement(
    "Whether a dataset has published chunks.",
    "select 1 from hg_chunk where dataset_id = :dataset and kind = 'OUTPUT' limit 1",
)
ADD_JOB = Statement(
    "A new job.",
    """insert into hg_job (name, environment, max_attempts, max_crashes, max_interruptions, retry_delay, on_failure,
                           stop_exit, recur, mapped, paused, key_check)
       values (:name, :environment, :max_attempts, :max_crashes, :max_interruptions, :retry_delay, :on_failure,
               :stop_exit, :recur, :mapped, '', '')""",
)
CHANGE_JOB = Statement(
    "Change the definition of a job, except its pause and its key.",
    """update hg_job set environment = :environment, max_attempts = :max_attempts, max_crashes = :max_crashes,
              max_interruptions = :max_interruptions, retry_delay = :retry_delay, on_failure = :on_failure,
              stop_exit = :stop_exit, recur = :recur, mapped = :mapped where id = :id""",
)
PAUSE_JOB = Statement("Pause a job, or resume it.", "update hg_job set paused = :paused where id = :id")
READ_COMMANDS = Statement(
    "The file that defines a job's commands, locked.", "select id, commands from hg_job where name = :name {for_update}"
)
NOTE_COMMANDS = Statement(
    "Record another file for a job's commands.", "update hg_job set commands = :digest where id = :id"
)
DROP_LINKS = Statement("Remove the inputs and outputs of a job.", "delete from hg_job_dataset where job_id = :job")
ADD_LINK = Statement(
    "Add an input or output of a job.",
    """insert into hg_job_dataset (job_id, dataset_id, kind, position, mapping)
       values (:job, :dataset, :kind, :position, :mapping)""",
)
READ_CONSUMERS = Statement(
    "The jobs that read any of these datasets, with all of their inputs.",
    """select k.job_id, k.dataset_id, j.mapped, d.dataid_order from hg_job_dataset k
       join hg_dataset d on d.id = k.dataset_id join hg_job j on j.id = k.job_id
       where k.kind = 'INPUT' and k.job_id in (
         select job_id from hg_job_dataset where kind = 'INPUT' and dataset_id in (:datasets*))
       order by k.job_id, k.position""",
)

# ---------------------------------------------------------------- chunks

# No ORDER BY on these two: with one, PostgreSQL reads the whole dataset instead of looking up the keys.
LOCK_ROWS = Statement(
    "Every row of a data id in these datasets, locked.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id in (:datasets*) and c.dataid = :dataid {{for_update}}""",
)
READ_ROWS = Statement(
    "Every row of a data id in these datasets.",
    f"select {ROW_COLUMNS} from hg_chunk c where c.dataset_id in (:datasets*) and c.dataid = :dataid",
)
LOCK_MADE = Statement(
    "The OUTPUT rows of these data ids in these datasets, locked.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id in (:datasets*) and c.dataid in (:dataids*) and c.kind = 'OUTPUT' {{for_update}}""",
)
LOCK_MANY_ROWS = Statement(
    "Every row of these data ids in these datasets, locked.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id in (:datasets*) and c.dataid in (:dataids*) {{for_update}}""",
)
READ_MANY_ROWS = Statement(
    "Every row of these data ids in these datasets.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id in (:datasets*) and c.dataid in (:dataids*)""",
)
CHANGE_ROWS = Statement(
    "Change these chunks, none of which is RUNNING afterwards; tokens stay unless new ones are issued.",
    """update hg_chunk set status = :status, former = :former, attempt = :attempt, failures = :failures,
              crashes = :crashes, interruptions = :interruptions, token = coalesce(:token, token), request_id = '',
              lease = null, lease_until = null, retry_after = {now} + :delay, since = {wall}, message = :message
       where dataset_id = :dataset and dataid in (:dataids*) and job_id = :job and kind = :kind and status = :was""",
)
DROP_ROWS = Statement(
    "Remove rows.",
    """delete from hg_chunk
       where dataset_id = :dataset and dataid in (:dataids*) and job_id = :job and kind = :kind""",
)
ADD_ROW = Statement(
    "A chunk's first row of its kind for a job.",
    """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                             interruptions, token, worker, request_id, lease, lease_until, forced, retry_after,
                             since, started, message, principal)
       values (:dataset, :dataid, :job, :kind, :order_key, :status, :former, :attempt, :failures, :crashes,
               :interruptions, :token, :worker, :request_id, :lease, {now} + :lease_left, :forced, {now} + :delay,
               {wall}, case when :starts then {wall} end, :message, :principal)""",
)
CHANGE_ROW = Statement(
    "Change a chunk's row, if it is still as it was read.",
    """update hg_chunk set status = :status, former = :former, attempt = :attempt, failures = :failures,
              crashes = :crashes, interruptions = :interruptions, token = :token, worker = :worker,
              request_id = :request_id, lease = :lease, lease_until = {now} + :lease_left, forced = :forced,
              retry_after = {now} + :delay, since = {wall},
              started = case when :starts then {wall} else started end, message = :message, principal = :principal
       where dataset_id = :dataset and dataid = :dataid and job_id = :job and kind = :kind
         and status = :was and token = :was_token""",
)
DROP_ROW = Statement(
    "Remove a chunk's row, if it is still as it was read.",
    """delete from hg_chunk where dataset_id = :dataset and dataid = :dataid and job_id = :job and kind = :kind
         and status = :was and token = :was_token""",
)
BEAT = Statement(
    "Renew the lease of a claim, unless it has expired.",
    """update hg_chunk set lease = :lease, lease_until = {now} + :lease
       where dataset_id in (:datasets*) and dataid = :dataid and job_id = :job and token = :token
         and status = {running} and lease_until > {now} and {owned}""",
)
ADD_ROWS = Statement(
    "Publish data that was made elsewhere.",
    """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                             token, worker, request_id, lease, lease_until, forced, retry_after, since, started,
                             message)
       values (:dataset, :dataid, :job, :kind, :order_key, :status, '', 0, 0, 0, 0, '', '', null, null, :forced, null,
               :at, null, '')""",
)
READ_WALL = Statement("The current time.", "select {wall}")
READ_EXPIRED = Statement(
    "Claims of one job whose lease has expired.",
    # The index is ordered by lease: only the limited number of rows is read, however many there are. In order:
    # otherwise workers that reap at the same time could deadlock. MariaDB's planner does not treat a clock as constant;
    # the zero restricts it to the rows with a lease.
    """select distinct e.dataid from (
         select dataid from hg_chunk
         where job_id = :job and lease_until > 0 and lease_until <= {now} order by lease_until limit :rows) e
       order by e.dataid limit :limit""",
)
READ_REPEATED = Statement(
    "The claim that this request has already received.",
    """select dataid from hg_chunk
       where job_id = :job and lease_until > 0 and lease_until > {now} and request_id = :request_id limit 1""",
)
READ_RUNNING = Statement(
    "The RUNNING rows of these chunks of a dataset.",
    """select c.dataid, coalesce(j.name, 'external'), c.kind, c.token, c.worker, c.lease, c.lease_until - {now},
              c.since, c.attempt, c.principal
       from hg_chunk c left join hg_job j on j.id = c.job_id
       where c.dataset_id = :dataset and c.dataid in (:dataids*) and c.status = {running}
         and c.lease_until > {now} and (c.kind = 'OUTPUT' or not coalesce(j.mapped, false))
       union all
       select r.source, j.name, c.kind, c.token, c.worker, c.lease, c.lease_until - {now}, c.since, c.attempt,
              c.principal
       from hg_read r join hg_job j on j.id = r.job_id
       join hg_chunk c on c.dataset_id = r.dataset_id and c.dataid = r.dataid and c.job_id = r.job_id
       where r.dataset_id = :dataset and r.source in (:dataids*) and c.kind = 'INPUT' and c.status = {running}
         and c.lease_until > {now}""",
)
CLEAR_COUNTS = Statement(
    "New data for a job: earlier failures no longer count.",
    """update hg_chunk set failures = 0, crashes = 0, interruptions = 0, retry_after = null
       where dataset_id in (:datasets*) and dataid in (:dataids*) and job_id = :job
         and (failures > 0 or crashes > 0 or interruptions > 0
              or retry_after is not null)""",
)
READ_LINKED = Statement(
    "The datasets that these jobs read and make.",
    "select job_id, dataset_id from hg_job_dataset where job_id in (:jobs*)",
)
READ_READY = Statement(
    "Those of these data ids that are READY in these datasets.",
    """select dataset_id, dataid from hg_chunk
       where dataset_id in (:datasets*) and dataid in (:dataids*) and kind = 'OUTPUT' and status = {ready}""",
)

# ---------------------------------------------------------------- claimable chunks

LOCK_CANDIDATE = Statement(
    "The entry of a chunk among the claimable ones, locked.",
    "select place, missing, not_before from hg_candidate where job_id = :job and dataid = :dataid {for_update}",
)
LOCK_CANDIDATES = Statement(
    "The entries of these chunks among the claimable ones, locked.",
    "select place from hg_candidate where job_id = :job and dataid in (:dataids*) {for_update}",
)
MAY_FIND = Statement(
    "Whether find_next has anything to do: a candidate, an expired claim, an arrival, or a repeated request.",
    """select not exists (select 1 from hg_meta where name = 'definitions' and value = :stamp)
              or exists (select 1 from hg_chunk
                         where job_id = :job and lease_until > {now} and request_id = :request_id)
              or (:paused = 0 and (
                  exists (select 1 from hg_candidate
                          where job_id = :job and missing = 0 and not_before <= {now})
                  or exists (select 1 from hg_chunk where job_id = :job and lease_until <= {now})
                  or exists (select 1 from hg_arrival where job_id = :job)))""",
)
TAKE_HEAD = Statement(
    "The next chunk that may be claimable and is not locked by others.",
    """select dataid, place, order_key from hg_candidate
       where job_id = :job and missing = 0 and not_before <= {now}
       order by place, order_key limit 1 {skip_locked}""",
)
TAKE_NEXT = Statement(
    "The same, after a position.",
    """select dataid, place, order_key from hg_candidate
       where job_id = :job and missing = 0 and not_before <= {now}
         and (place > :place or (place = :place and order_key > :order_key))
       order by place, order_key limit 1 {skip_locked}""",
)
READ_NEXT = Statement(
    "Chunks that may be claimable, in order.",
    """select dataid from hg_candidate where job_id = :job and missing = 0
       order by place, order_key limit :limit""",
)
READ_INCOMPLETE = Statement(
    "Chunks that wait for inputs, in order.",
    """select dataid from hg_candidate where job_id = :job and missing <> 0
       order by order_key limit :limit""",
)
READ_TROUBLE = Statement(
    "Data ids of a job that need an operator, a retry, or their turn.",
    """select distinct dataid from hg_chunk
       where job_id = :job and dataset_id in (:datasets*) and status not in {settled} limit :limit""",
)
READ_BUSY = Statement(
    "Data ids that a job is running.",
    """select distinct dataid from hg_chunk
       where job_id = :job and dataset_id in (:datasets*) and lease_until > 0 limit :limit""",
)
PUT_CANDIDATE = Statement(
    "List a chunk that may be claimable once nothing is missing.",
    """insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
       values (:job, :dataid, :order_key, :place, :missing, {now} + :delay)
       {or_change} missing = {new_missing}, place = {new_place}, not_before = {new_not_before}""",
)
CLEAR_MISSING = Statement(
    "An input of the chunk is READY: together with others, nothing else may be missing.",
    """insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
       values (:job, :dataid, :order_key, :place, :missing, :not_before)
       {or_change} missing = hg_candidate.missing & {new_missing}, not_before = 0""",
)
SET_MISSING = Statement(
    "An input of these chunks is no longer READY.",
    "update hg_candidate set missing = missing | :bit where job_id = :job and dataid in (:dataids*)",
)
DROP_CANDIDATES = Statement(
    "Remove these chunks from the claimable ones.",
    "delete from hg_candidate where job_id = :job and dataid in (:dataids*)",
)
DROP_ALL_CANDIDATES = Statement("Remove all claimable chunks of a job.", "delete from hg_candidate where job_id = :job")
READ_CHUNKS_OF = Statement(
    "READY chunks of a dataset after one, with their positions.",
    """select dataid from hg_chunk
       where dataset_id = :dataset and kind = 'OUTPUT' and status = {ready} and dataid > :after
       order by dataid limit :limit""",
)
READ_STARTED = Statement(
    "Data ids with a row of a job, after one.",
    """select distinct dataid from hg_chunk where job_id = :job and dataset_id = :dataset and dataid > :after
       order by dataid limit :limit""",
)

# ---------------------------------------------------------------- overviews of many chunks

READ_DATAIDS = Statement(
    "Data ids of a dataset in its order, some of them skipped.",
    """select dataid, order_key from hg_chunk
       where dataset_id = :dataset and kind = 'OUTPUT' and order_key >= :low and order_key <= :high
       order by order_key limit :limit offset :skip""",
)
READ_LAST_DATAID = Statement(
    "The last data id of a part of a dataset.",
    """select dataid, order_key from hg_chunk
       where dataset_id = :dataset and kind = 'OUTPUT' and order_key >= :low and order_key <= :high
       order by order_key desc limit 1""",
)
COUNT_STATUSES = Statement(
    "Number of chunks of a part of a dataset, by status.",
    """select status, count(*) from hg_chunk
       where dataset_id = :dataset and kind = 'OUTPUT' and order_key >= :low and order_key <= :high
       group by status""",
)

# ---------------------------------------------------------------- history

RECORD = Statement(
    "Record an event of a chunk.",
    """insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before, state_after,
                               reason, principal)
       values ({wall}, 'chunk', :event, :dataid, :job, :dataset, :who, :token, :before, :after, :reason, :principal)""",
)
RECORD_JOB = Statement(
    "Record an event of a job.",
    """insert into hg_history (at, noun, event, subject, job_id, client, token, state_before, state_after, reason,
                               principal)
       values ({wall}, 'job', :event, '', :job, :who, 0, :before, :after, :reason, :principal)""",
)
FIND_INTERRUPTION = Statement(
    "Whether this claim on a chunk was reported as interrupted.",
    """select 1 from hg_history
       where subject = :dataid and job_id = :job and event in {interruptions} and token = :token limit 1""",
)
COUNT_INTERRUPTIONS = Statement(
    "How often workers were interrupted on a chunk since its counts were reset.",
    """select count(*) from hg_history
       where subject = :dataid and job_id = :job and event in {interruptions} and at >= :since
         and id > (select coalesce(max(id), 0) from hg_history
                   where subject = :dataid and job_id = :job and event in {counts_begin})""",
)
