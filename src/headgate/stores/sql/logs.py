"""Logs in SQL: written by the holder of the claim, read by attempt, and removed when they are old."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.calls.actor import actor
from headgate.calls.deadlines import LOG_CALLS, answered_in_time
from headgate.core.ledger import work as chunk_work
from headgate.core.logs import MOST_LOGGED, Log, LogStream, LogText
from headgate.core.values.log_text import last_line
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import micro, moment
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.shapes import shape_of
from headgate.stores.sql.ledger.snapshots import load

#: The job number of logs that belong to an ingest job.
NO_JOB = 0
FIND_CLAIM = Statement(
    "The rows of a claim, whether it runs or was reported.",
    """select j.id, c.dataset_id, c.attempt from hg_job j
       join hg_job_dataset k on k.job_id = j.id
       join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = :dataid and c.job_id = j.id
       where j.name = :job and c.token = :token and {owned}""",
)
SHOW_LINE = Statement(
    "Record the last line of a running claim. The reason of an operator who forced it stays.",
    """update hg_chunk set message = :line
       where dataset_id in (:datasets*) and dataid = :dataid and job_id = :job and token = :token
         and status = {running} and not forced""",
)
FIND_LOGS = Statement(
    "The stored logs of a chunk or ingest job, without their texts.",
    "select token, stream, size from hg_log where job_id = :job and subject = :subject",
)
#: By whether an attempt and a stream are requested.
READ_LOGS = {
    (of_attempt, of_stream): Statement(
        "The newest logs, newest attempt first; within one attempt stdout before stderr.",
        f"""select attempt, token, step, stream, content, size, cut, ended, at from hg_log
            where job_id = :job and subject = :subject {"and attempt = :attempt" if of_attempt else ""}
              {"and stream = :stream" if of_stream else ""}
            order by token desc, stream desc limit :limit""",
    )
    for of_attempt in (False, True)
    for of_stream in (False, True)
}
ADD_LOG = Statement(
    "The first text of a stream.",
    """insert into hg_log (job_id, subject, token, stream, attempt, step, size, cut, ended, at, content)
       values (:job, :subject, :token, :stream, :attempt, :step, :size, :cut, :ended, {wall}, :content)""",
)
CHANGE_LOG = Statement(
    "A later text of a stream, unless a still later one is stored.",
    """update hg_log set size = :size, cut = :cut, ended = :ended, at = {wall}, content = :content
       where job_id = :job and subject = :subject and token = :token and stream = :stream and size <= :size
         and not ended""",
)
DROP_LOGS = Statement(
    "Logs of the earliest attempts.", "delete from hg_log where job_id = :job and subject = :subject and token < :token"
)
DROP_ALL_LOGS = Statement("All logs of an ingest job.", "delete from hg_log where job_id = :job and subject = :subject")
FIND_OLDEST = Statement("When the oldest log was written.", "select min(at) from hg_log")
FIND_LAST = Statement(
    "The last of the oldest logs, which are removed together.",
    "select at from hg_log where at < :until order by at limit 1 offset :ahead",
)
FORGET = Statement("Remove the logs up to that moment.", "delete from hg_log where at <= :at")


@dataclass(frozen=True, slots=True)
class Writer:
    """The owner of a log: an attempt on a chunk, or a step of an ingest job (which has no job of the ledger)."""

    job: int
    subject: str
    token: int
    attempt: int
    step: str = ""


def keep_claim_log(tx: Transaction, claim: tuple[str, str, int], texts: Sequence[LogText], *, ended: bool) -> None:
    """Store a worker's output. ClaimLost when the claim is not the newest; NotOwner when it is another's."""
    job, dataid, token = claim
    rows = tx.all(FIND_CLAIM, job=job, dataid=dataid, token=token, principal=actor().compared)
    if not rows:
        raise chunk_work.refuse_heartbeat(load(tx, shape_of(tx, job, share=False), dataid), token)
    # Of what was written since the last time: the reason of a failure is taken from stderr, too.
    by_stream = sorted(texts, key=lambda each: each.stream is not LogStream.STDERR)
    line = next((line for each in by_stream if (line := last_line(each.text))), "")
    if line and not ended:  # A report comes next, with a message of its own.
        tx.run(SHOW_LINE, line=line, datasets=[row[1] for row in rows], dataid=dataid, job=rows[0][0], token=token)
    keep_log(tx, Writer(int(rows[0][0]), dataid, token, max(int(row[2]) for row in rows)), texts, ended=ended)


def keep_log(tx: Transaction, writer: Writer, texts: Sequence[LogText], *, ended: bool) -> None:
    """Store these texts; with the first one of an attempt the logs of the earliest attempts are removed."""
    known = tx.all(FIND_LOGS, job=writer.job, subject=writer.subject)
    streams = {str(stream) for token, stream, _ in known if token == writer.token}
    of = {"job": writer.job, "subject": writer.subject, "token": writer.token}
    for each in texts:
        kept = {
            "stream": each.stream.value, "size": each.size, "cut": each.cut, "ended": ended,
            "content": zlib.compress(each.text.encode(errors="replace")),
        }  # fmt: skip
        if each.stream in streams:
            tx.run(CHANGE_LOG, **of, **kept)
        else:
            tx.run(ADD_LOG, **of, **kept, attempt=writer.attempt, step=writer.step)
    tokens = sorted({int(row[0]) for row in known} | {writer.token}, reverse=True)
    if not streams and len(tokens) > MOST_LOGGED:
        tx.run(DROP_LOGS, job=writer.job, subject=writer.subject, token=tokens[MOST_LOGGED - 1])


def drop_logs(tx: Transaction, item: str) -> None:
    """An ingest job has left the queue: remove its logs."""
    tx.run(DROP_ALL_LOGS, job=NO_JOB, subject=item)


def read_logs(
    tx: Transaction, job: int, subject: str, attempt: int | None, stream: LogStream | None, limit: int
) -> list[Log]:
    """The newest logs, newest attempt first; within one attempt in the order of the streams."""
    statement = READ_LOGS[attempt is not None, stream is not None]
    word = None if stream is None else stream.value
    rows = tx.all(statement, job=job, subject=subject, attempt=attempt, stream=word, limit=limit)
    return [
        Log(int(number), int(token), str(step), LogStream(name), zlib.decompress(content).decode(), int(size),
            bool(cut), bool(ended), moment(at))
        for number, token, step, name, content, size, cut, ended, at in rows
    ]  # fmt: skip


@answered_in_time(LOG_CALLS)
class SqlLogs:
    """All logs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.options = database.options

    def oldest(self) -> datetime | None:
        """When the oldest log was written; None: there is none."""
        at = self._database.single(FIND_OLDEST)[0][0]
        return None if at is None else moment(at)

    def forget(self, until: datetime, limit: int) -> int:
        """Remove about this many of the logs from before that time, oldest first. Returns how many."""

        def step(tx: Transaction) -> int:
            last = tx.one(FIND_LAST, until=micro(until), ahead=limit - 1)
            return tx.count(FORGET, at=micro(until) - 1 if last is None else last[0])

        return self._database.write(step)
