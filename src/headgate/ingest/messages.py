"""What others are told: made once, kept in the outbox, sent from there. A repeat makes the same, and is not kept."""

from __future__ import annotations

import json
import logging
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from headgate.core.errors import BadValue, Invalid, ServiceRefused, ServiceUnavailable
from headgate.core.inventory import SENT_BY_MESSENGER, Kind, Message, Recording
from headgate.core.queue import Batch, IngestJob
from headgate.ingest import callback, mail, report
from headgate.ingest.context import Context, now
from headgate.ingest.profile import Profile
from headgate.ingest.retries import Retries
from headgate.telemetry import event

#: One try each time: the outbox itself tries again.
_ONE_TRY = Retries(tries=1)


# ---------------------------------------------------------------- callbacks


def callback_id(context: Context, job: IngestJob, what: str = "completed") -> str:
    """Stable, and no other store's: two stores count their jobs alike."""
    return f"{job.id}-{what}-{context.queue.batch(job.batch).submission.origin}"


def callback_message(context: Context, job: IngestJob, profile: Profile, recording: Recording) -> Message:
    """What the callback hears of a recorded object."""
    data = _job_data(job) | {
        "state": "completed", "version": recording.version, "title": recording.what, "creator": recording.who,
        "date": recording.when, "files": len(recording.files), "size": sum(each.size for each in recording.files),
    }  # fmt: skip
    return _callback(callback_id(context, job), Kind.CALLBACK, "ingest.completed", job, profile, data)


def failure_message(context: Context, job: IngestJob, profile: Profile) -> Message:
    """What the callback hears of a failed job; a job that was resumed may fail again, which is another one."""
    data = _job_data(job) | {"state": job.state, "message": job.message, "retry_count": job.retry_count}
    name = callback_id(context, job, f"failed{job.retry_count}")
    return _callback(name, Kind.FAILURE, "ingest.failed", job, profile, data)


def _callback(name: str, kind: Kind, event: str, job: IngestJob, profile: Profile, data: dict[str, Any]) -> Message:
    body = {"type": event, "timestamp": now().isoformat(timespec="seconds"), "data": data}
    return Message(name, kind, job.id, json.dumps(body, ensure_ascii=False), profile.callback_url)


def _job_data(job: IngestJob) -> dict[str, Any]:
    return {
        "job": job.id, "batch": job.batch, "profile": job.profile, "primary_id": job.identifiers.primary,
        "local_ids": list(job.identifiers.local), "submitter": job.configuration.get("submitter"),
        "filename": job.configuration.get("filename"),
    }  # fmt: skip


def callback_of(context: Context, profile: Profile, message: Message) -> callback.Callback:
    """A message, ready to be signed and sent."""
    secret = context.secret(profile.callback_secret) if profile.callback_secret else ""
    return callback.Callback(message.to, message.id, message.body.encode(), secret)


# ---------------------------------------------------------------- mails


def post_confirmation(context: Context, batch: Batch, profile: Profile) -> None:
    """That a batch was taken in."""
    jobs = context.queue.jobs(batch=batch.id)
    _post_mail(context, batch, "queued", report.confirmation(batch, jobs, envelope(context, profile)))


def report_number(context: Context, batch: Batch) -> int:
    """Reports of a batch are numbered; one that is made again, after a restart, keeps its number."""
    reports = [each for each in context.inventory.messages(batch.id) if ".report-" in each.id]
    for each in reports:
        if each.occasion == occasion_of(batch):
            return int(each.id.rpartition("-")[2])
    return len(reports) + 1


def occasion_of(batch: Batch) -> str:
    """Since when a batch is being reported: the same however often it is taken up."""
    return f"{batch.state} {batch.since.isoformat()}"


def post_report(context: Context, batch: Batch, message: EmailMessage, number: int) -> None:
    """How a batch ended, or what changed since."""
    _post_mail(context, batch, f"report-{number}", message)


def _post_mail(context: Context, batch: Batch, name: str, message: EmailMessage) -> None:
    body = message.as_bytes().decode(errors="surrogateescape")
    context.inventory.post(Message(f"{batch.id}.{name}", Kind.MAIL, batch.id, body, occasion=occasion_of(batch)))


def envelope(context: Context, profile: Profile) -> report.Envelope:
    """From the service, to whom the profile names."""
    options = context.options
    return report.Envelope(options.mail_from, profile.notification, now(), options.mail_reply_to)


# ---------------------------------------------------------------- sending


def send_due(context: Context) -> int:
    """Send what waits and whose time has come. Gives how many were tried."""
    due = context.inventory.due(SENT_BY_MESSENGER)
    for message in due:
        try:
            _send(context, message)
        except ServiceRefused as error:
            context.inventory.undelivered(message, str(error), for_good=True)
        except (ServiceUnavailable, Invalid) as error:
            context.inventory.undelivered(message, str(error))
        else:
            context.inventory.delivered(message)
    return len(due)


def _send(context: Context, message: Message) -> None:
    if message.kind is Kind.MAIL:
        if context.options.mail_server is None:
            raise BadValue("mail_server", "", "is not set, so that no mail leaves")
        parsed = message_from_bytes(message.body.encode(errors="surrogateescape"), policy=SMTP)
        assert isinstance(parsed, EmailMessage)  # noqa: S101 - the policy makes it one
        refused = mail.send(context.options.mail_server, parsed)
        if refused:
            event("mail.recipients_refused", logging.WARNING, message=message.id, refused=refused)
        return
    profile = context.profile(context.queue.job(message.item))
    callback.deliver(context.service(message.to), callback_of(context, profile, message), _ONE_TRY)
