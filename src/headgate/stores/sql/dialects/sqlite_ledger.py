"""The ledger's quick operations on SQLite: few statements while the file is ours.

They do what the careful way would do, or nothing at all: whatever is not plain is left to it.
"""

from __future__ import annotations

from typing import Any

from headgate.stores.sql.dialects.base import Parameters
from headgate.stores.sql.ledger_statements import SHAPE_COLUMNS
from headgate.stores.sql.statement import Row, Statement

FIND_HEAD = Statement(
    # The claims of the dead and what was resubmitted go the careful way, and before all others.
    "The first chunk in order of a job, when nothing goes before it.",
    """select j.id, c.dataid, c.order_key from hg_job j
       join hg_candidate c on c.job_id = j.id and c.missing = 0 and c.place = 1 and c.not_before <= {now}
       where j.name = :job and j.paused = ''
         and not exists (select 1 from hg_chunk e where e.job_id = j.id and e.lease_until <= {now})
         and not exists (select 1 from hg_candidate r where r.job_id = j.id and r.missing = 0 and r.place = 0)
       order by c.order_key limit 1""",
)
SOMETHING_NEAR = Statement(
    "Whether anything but READY inputs, each of them once, is there; or a lock; or two orders of data ids.",
    """select count(distinct d.dataid_order) > 1
              or sum(exists (select 1 from hg_lock l where l.rkey = hg_chunk_key(d.name, :dataid)))
              or sum((select count(*) from hg_chunk c
                      where c.dataset_id = k.dataset_id and c.dataid = :dataid and c.kind = 'OUTPUT'
                        and c.status = 'READY') <> (k.kind = 'INPUT'))
              or sum(exists (select 1 from hg_chunk c
                             where c.dataset_id = k.dataset_id and c.dataid = :dataid
                               and not (k.kind = 'INPUT' and c.kind = 'OUTPUT' and c.status = 'READY')
                               and not (k.kind = 'INPUT' and c.kind = 'INPUT' and c.job_id <> :job)))
       from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id where k.job_id = :job""",
)
RUN = Statement(
    "Its rows are RUNNING.",
    """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                             token, worker, request_id, lease, lease_until, forced, retry_after, since, started,
                             message)
       select k.dataset_id, :dataid, :job, k.kind, :order_key, 'RUNNING', '', 1, 0, 0,
              :token, :worker, :request_id, :lease, {now} + :lease, 0, null, {wall}, {wall}, ''
       from hg_job_dataset k where k.job_id = :job""",
)
TAKE = Statement("It is claimable no more.", "delete from hg_candidate where job_id = :job and dataid = :dataid")
TELL = Statement(
    "Tell of it.",
    """insert into hg_chunk_history (at, event, job_id, dataset_id, dataid, who, token, state_before, state_after,
                                     reason)
       select {wall}, :event, :job, k.dataset_id, :dataid, :who, :token, :before,
              case when :event = 'claim' then 'RUNNING' when k.kind = 'OUTPUT' then 'READY' else 'DONE' end, ''
       from hg_job_dataset k where k.job_id = :job order by k.kind desc, k.position limit 1""",
)
READ_SHAPE = Statement(
    "What a claim needs to know of its job and datasets.",
    f"""select json_array({SHAPE_COLUMNS}) from hg_job j
        join hg_job_dataset k on k.job_id = j.id join hg_dataset d on d.id = k.dataset_id where j.id = :job""",
)
COUNT_RUNNING = Statement(
    "A job, how many rows its claims have, how many of them run with this token, and whether its outputs are read.",
    """select j.id, count(*), sum(exists (
                select 1 from hg_chunk c
                where c.dataset_id = k.dataset_id and c.dataid = :dataid and c.job_id = j.id and c.kind = k.kind
                  and c.token = :token and c.status = 'RUNNING')),
              sum(k.kind = 'OUTPUT' and exists (
                select 1 from hg_job_dataset i where i.dataset_id = k.dataset_id and i.kind = 'INPUT'))
       from hg_job j join hg_job_dataset k on k.job_id = j.id where j.name = :job group by j.id""",
)
END = Statement(
    "The rows are READY and DONE.",
    """update hg_chunk
       set status = case kind when 'OUTPUT' then 'READY' else 'DONE' end, former = '', request_id = '', lease = null,
           lease_until = null, retry_after = null, since = {wall}, message = ''
       where dataset_id in (select dataset_id from hg_job_dataset where job_id = :job) and dataid = :dataid
         and job_id = :job and token = :token and status = 'RUNNING'""",
)
_CONSUMERS = """(select i.job_id from hg_job_dataset o
                 join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
                 where o.job_id = :job and o.kind = 'OUTPUT')"""
CLEAR_COUNTS = Statement(
    "New data for who reads it: what failed before counts no longer.",
    f"""update hg_chunk set failures = 0, crashes = 0, retry_after = null
        where dataset_id in (select dataset_id from hg_job_dataset where job_id in {_CONSUMERS}) and dataid = :dataid
          and job_id in {_CONSUMERS} and (failures > 0 or crashes > 0 or retry_after is not null)""",
)
CLEAR_MISSING = Statement(
    "Who reads it misses it no longer.",
    f"""insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
        select k.job_id, :dataid,
               case max(case when k.position = 0 then d.dataid_order end) when 'text' then :text_key
               else :natural_key end, 1,
               sum(not exists (select 1 from hg_chunk r
                               where r.dataset_id = k.dataset_id and r.dataid = :dataid and r.kind = 'OUTPUT'
                                 and r.status = 'READY') << k.position), 0
        from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
        where k.kind = 'INPUT' and k.job_id in {_CONSUMERS} group by k.job_id
        on conflict (job_id, dataid) do update set missing = hg_candidate.missing & excluded.missing, not_before = 0""",
)


def claim_next(tx: Any, params: Parameters) -> list[Row]:
    """The first chunk in order becomes RUNNING, if it was never claimed and nobody is near it."""
    head = tx.one(FIND_HEAD, job=params["job"])
    if head is None:
        return []
    job, dataid, key = head
    if tx.one(SOMETHING_NEAR, job=job, dataid=dataid)[0]:
        return []
    token = tx.next_token()
    tx.run(RUN, **{**params, "job": job}, dataid=dataid, order_key=key, token=token)
    tx.run(TAKE, job=job, dataid=dataid)
    tx.run(TELL, event="claim", job=job, dataid=dataid, who=params["worker"], token=token, before="absent")
    return [(dataid, token, text) for (text,) in tx.all(READ_SHAPE, job=job)]


def succeed(tx: Any, params: Parameters) -> bool:
    """A claim that runs becomes READY and DONE."""
    found = tx.one(COUNT_RUNNING, job=params["job"], dataid=params["dataid"], token=params["token"])
    if found is None or found[1] != found[2]:
        return False
    numbered = {**params, "job": found[0]}
    tx.run(END, **numbered)
    tx.run(TAKE, **numbered)
    tx.run(TELL, **numbered, event="success", before="RUNNING")
    if found[3]:
        tx.run(CLEAR_COUNTS, **numbered)
        tx.run(CLEAR_MISSING, **numbered)
    return True
