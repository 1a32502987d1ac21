"""Statements about incidents, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

REPEAT_INCIDENT = Statement(
    "Count the open incident of a chunk once more.",
    """update hg_incident set message = :message, at = {wall}, count = count + 1, acknowledged_by = '', due = {wall},
              reported = :reported
       where job_id = :job and subject = :subject and is_open = 1 and kind = :kind""",
)
OPEN_INCIDENT = Statement(
    "Open an incident.",
    """insert into hg_incident (kind, job_id, subject, is_open, message, since, at, count, closed_by, acknowledged_by,
                                due, reported)
       values (:kind, :job, :subject, 1, :message, {wall}, {wall}, 1, '', '', {wall}, :reported)""",
)
CLOSE_INCIDENTS = Statement(
    "Close the incidents of these chunks.",
    """update hg_incident set is_open = null, closed = {wall}, closed_by = :event, snoozed_until = null, due = {wall}
       where job_id = :job and subject in (:subjects*) and is_open = 1""",
)
COLUMNS = """i.id, i.kind, coalesce(j.name, ''), i.subject, i.message, i.since, i.at, i.count, i.closed, i.closed_by,
             i.acknowledged_by, case when i.snoozed_until > {wall} then i.snoozed_until end, i.due, i.reported"""
FROM = "from hg_incident i left join hg_job j on j.id = i.job_id"
READ_INCIDENT = Statement("One incident.", f"select {COLUMNS} {FROM} where i.id = :id")
LIST_INCIDENTS = Statement(
    "Incidents, newest first.",
    f"""select {COLUMNS} {FROM}
        where i.id < :before and (:job = '' or j.name = :job) and (:kind = '' or i.kind = :kind)
          and (i.is_open = 1 or i.is_open is null and :closed = 1)
        order by i.id desc limit :limit""",
)
COUNT_OPEN = Statement(
    "Number of open incidents, and since when.",
    "select kind, count(*), min(since) from hg_incident where is_open = 1 group by kind",
)
READ_DUE = Statement(
    "Incidents whose notice is due, oldest first.",
    f"select {COLUMNS} {FROM} where i.due <= {{wall}} order by i.due, i.id limit :limit",
)
HOLD_DUE = Statement(
    "When the notices of these are due, locked.",
    "select id, due from hg_incident where id in (:ids*) order by id {for_update}",
)
REPORTED = Statement(
    "Record that a notice has reported these.",
    "update hg_incident set due = null, reported = :reported where id in (:ids*)",
)
ACKNOWLEDGE = Statement(
    "Acknowledge it: no notice about its opening is sent.",
    """update hg_incident set acknowledged_by = :who, due = case when is_open = 1 then null else due end,
              reported = :reported
       where id = :id""",
)
SNOOZE = Statement(
    "Snooze it: a notice reports it again later, if it is still open.",
    "update hg_incident set snoozed_until = {wall} + :span, due = {wall} + :span where id = :id and is_open = 1",
)
DROP_OLD = Statement(
    "Remove incidents that closed long ago.", "delete from hg_incident where is_open is null and closed < {wall} - :age"
)
READ_NOTICES = Statement(
    "Notices of the last hour, and deferred ones.",
    "select id, recipient, at, count, kept from hg_notice where at > {wall} - :age or kept is not null order by at",
)
ADD_NOTICE = Statement(
    "Record a sent or deferred notice.",
    "insert into hg_notice (id, recipient, at, count, kept) values (:id, :recipient, {wall}, :count, :kept)",
)
FIND_NOTICE = Statement("Whether a notice was sent or deferred.", "select 1 from hg_notice where id = :id")
RELEASE_NOTICES = Statement("Release deferred notices.", "delete from hg_notice where id in (:ids*)")
DROP_NOTICES = Statement(
    "Notices older than an hour.", "delete from hg_notice where at < {wall} - :age and kept is null"
)
