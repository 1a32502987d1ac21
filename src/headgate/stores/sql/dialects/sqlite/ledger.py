"""The ledger's fast paths on SQLite: a few statements while the file is locked.

They do what the slow path would do, or nothing at all: all other cases are left to it.
"""

from __future__ import annotations

from typing import Any

from headgate.stores.sql.database.dialect import Parameters
from headgate.stores.sql.database.sql_text import Statement

IS_CURRENT = Statement(
    "Whether the caller's definitions are current.",
    "select 1 from hg_meta where name = 'definitions' and value = :stamp",
)
FIND_HEAD = Statement(
    # Expired claims and resubmitted chunks come first, by the slow path.
    "The first chunk in order of a job, if nothing has precedence; and whether the definitions are current.",
    """select s.value = :stamp, h.dataid, h.order_key from hg_meta s left join (
         select c.dataid, c.order_key from hg_candidate c
         where c.job_id = :job and c.missing = 0 and c.place = 1 and c.not_before <= {now}
           and not exists (select 1 from hg_chunk e where e.job_id = :job and e.lease_until <= {now})
           and not exists (select 1 from hg_candidate r where r.job_id = :job and r.missing = 0 and r.place = 0)
         order by c.order_key limit 1) h on true
       where s.name = 'definitions'""",
)
SOMETHING_NEAR = Statement(
    "Whether there is anything besides one READY row of each input, or a lock.",
    """select sum(exists (select 1 from hg_lock l where l.rkey = hg_chunk_key(d.name, :dataid)))
              or sum((select count(*) from hg_chunk c
                      where c.dataset_id = k.dataset_id and c.dataid = :dataid and c.kind = 'OUTPUT'
                        and c.status = {ready}) <> (k.kind = 'INPUT'))
              or sum(exists (select 1 from hg_chunk c
                             where c.dataset_id = k.dataset_id and c.dataid = :dataid
                               and not (k.kind = 'INPUT' and c.kind = 'OUTPUT' and c.status = {ready})
                               and not (k.kind = 'INPUT' and c.kind = 'INPUT' and c.job_id <> :job)))
       from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id where k.job_id = :job""",
)
RUN = Statement(
    "Set its rows to RUNNING.",
    """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                             token, worker, request_id, lease, lease_until, forced, retry_after, since, started,
                             message, principal)
       select k.dataset_id, :dataid, :job, k.kind, :order_key, {running}, '', 1, 0, 0,
              :token, :worker, :request_id, :lease, {now} + :lease, 0, null, {wall}, {wall}, '', :principal
       from hg_job_dataset k where k.job_id = :job""",
)
TAKE = Statement(
    "Remove it from the claimable chunks.", "delete from hg_candidate where job_id = :job and dataid = :dataid"
)
RECORD = Statement(
    "Record it in the history.",
    """insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before, state_after,
                               reason, principal)
       values ({wall}, 'chunk', :event, :dataid, :job, :told, :who, :token, :before, :after, '', :principal)""",
)
ALL_RUN = Statement(
    "Whether all rows of a claim are RUNNING with this token, and no incident is open that success would close.",
    """select count(*) = count(c.token) and not exists (
         select 1 from hg_incident i where i.job_id = :job and i.subject = :dataid and i.is_open = 1)
       from hg_job_dataset k
       left join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = :dataid and c.job_id = :job
         and c.kind = k.kind and c.token = :token and c.status = {running} and {owned}
       where k.job_id = :job""",
)
END = Statement(
    "Set the rows to READY and DONE.",
    """update hg_chunk
       set status = case kind when 'OUTPUT' then {ready} else {done} end, former = '', request_id = '', lease = null,
           lease_until = null, retry_after = null, since = {wall}, message = ''
       where dataset_id in (select dataset_id from hg_job_dataset where job_id = :job) and dataid = :dataid
         and job_id = :job and token = :token and status = {running}""",
)
_CONSUMERS = """(select i.job_id from hg_job_dataset o
                 join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
                 where o.job_id = :job and o.kind = 'OUTPUT')"""
CLEAR_COUNTS = Statement(
    "New data for the jobs that read it: earlier failures no longer count.",
    f"""update hg_chunk set failures = 0, crashes = 0, interruptions = 0, retry_after = null
        where dataset_id in (select dataset_id from hg_job_dataset where job_id in {_CONSUMERS}) and dataid = :dataid
          and job_id in {_CONSUMERS}
          and (failures > 0 or crashes > 0 or interruptions > 0 or retry_after is not null)""",
)
CLEAR_MISSING = Statement(
    "Record that it is no longer missing for its readers.",
    f"""insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
        select k.job_id, :dataid,
               case max(case when k.position = 0 then d.dataid_order end) when 'text' then :text_key
               else :natural_key end, 1,
               sum(not exists (select 1 from hg_chunk r
                               where r.dataset_id = k.dataset_id and r.dataid = :dataid and r.kind = 'OUTPUT'
                                 and r.status = {{ready}}) << k.position), 0
        from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
        where k.kind = 'INPUT' and k.job_id in {_CONSUMERS} group by k.job_id
        on conflict (job_id, dataid) do update set missing = hg_candidate.missing & excluded.missing, not_before = 0""",
)


def claim_next(tx: Any, params: Parameters) -> tuple[bool, tuple[str, int] | None]:
    """The first chunk in order becomes RUNNING, if it was never claimed and nothing blocks it. Also
    returns whether the caller's definitions are current.
    """
    current, dataid, order_key = tx.one(FIND_HEAD, job=params["job"], stamp=params["stamp"])
    named: dict[str, Any] = {**params, "dataid": dataid}
    if not current or dataid is None or tx.one(SOMETHING_NEAR, **named)[0]:
        return bool(current), None
    named["token"] = tx.next_token()
    tx.run(RUN, **named, order_key=order_key)
    tx.run(TAKE, **named)
    row = tx.chunk_rules.fast.claim
    tx.run(RECORD, **named, event=row.event, who=params["worker"], before=row.source, after=row.target)
    return True, (dataid, named["token"])


def succeed(tx: Any, params: Parameters) -> tuple[bool, bool]:
    """A running claim becomes READY and DONE. Returns whether the definitions are current, and whether it succeeded."""
    current = tx.one(IS_CURRENT, **params) is not None
    if not current or not tx.one(ALL_RUN, **params)[0]:
        return current, False
    tx.run(END, **params)
    tx.run(TAKE, **params)
    row = tx.chunk_rules.fast.success
    tx.run(RECORD, **params, event=row.event, before=row.source, after=params["made"])
    if params["read"]:
        tx.run(CLEAR_COUNTS, **params)
        tx.run(CLEAR_MISSING, **params)
    return True, True
