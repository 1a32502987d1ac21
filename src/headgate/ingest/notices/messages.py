"""Notices to others: written once, kept in the outbox, sent from there. A repeat writes the same message, and is not
stored again.

The process that keeps the store writes them, from the profile and the queue. The profile determines the recipients.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from headgate.core.errors import BadValue, Invalid, QueueRefused, Refused, ServiceUnavailable
from headgate.core.inventory import Message, MessageKind, Recording, Sender
from headgate.core.queue.model import (
    COMPLETED,
    NOTIFY,
    REPORTING,
    UPDATE_REPORTING,
    Batch,
    Folder,
    IngestJob,
    Report,
    check_item_id,
    folder_of,
    is_batch,
)
from headgate.core.values.redaction import redact
from headgate.ingest.context import Context, now
from headgate.ingest.notices import batch_mails as report
from headgate.ingest.notices import callback, mail, outbox
from headgate.ingest.profiles.profile import Profile

#: Notices: a batch was accepted, a batch is being reported, a job failed, an object was recorded by another service.
QUEUED, REPORT, FAILED, RECORDED = "queued", "report", "failed", "recorded"


# ---------------------------------------------------------------- callbacks


def callback_id(context: Context, job: IngestJob, what: str = COMPLETED) -> str:
    """Stable, and unique to this store: two stores number their jobs alike."""
    return f"{job.id}-{what}-{context.origin_of(job.batch)}"


def callback_message(context: Context, job: IngestJob, profile: Profile, recording: Recording) -> Message:
    """The content of the callback for a recorded object."""
    return _completed(context, job, profile, {
        "version": recording.version, "title": recording.what, "creator": recording.who,
        "date": recording.when, "files": len(recording.files), "size": sum(each.size for each in recording.files),
    })  # fmt: skip


def outside_message(context: Context, job: IngestJob, profile: Profile) -> Message:
    """The same for an object that another service has recorded: from the job, and from our storage if the object is
    there.
    """
    said = job.configuration
    found = {
        "version": said.get("stored_version"), "title": said.get("erc_what", ""), "creator": said.get("erc_who", ""),
        "date": said.get("erc_when", ""), "files": None, "size": job.space_needed or None,
    }  # fmt: skip
    with suppress(Invalid, Refused, ServiceUnavailable):
        versions = context.storage(profile).list_versions(job.identifiers.primary)
        stored = next(each for each in (*versions, None) if each is None or each.number == found["version"])
        if stored is not None:
            found |= {"files": len(stored.files), "size": sum(each.size for each in stored.files)}
    return _completed(context, job, profile, found)


def _completed(context: Context, job: IngestJob, profile: Profile, found: Mapping[str, Any]) -> Message:
    data = _job_data(job) | {"state": COMPLETED, **found}
    made = _callback(callback_id(context, job), MessageKind.CALLBACK, "ingest.completed", job, profile, data)
    return replace(made, sender=Sender.JOB)


def failure_message(context: Context, job: IngestJob, profile: Profile) -> Message:
    """The content of the callback for a failed job. A resumed job may fail again, which is a separate callback."""
    data = _job_data(job) | {"state": job.state, "message": redact(job.message), "retry_count": job.retry_count}
    name = callback_id(context, job, f"failed{job.retry_count}")
    return _callback(name, MessageKind.FAILURE, "ingest.failed", job, profile, data)


def _callback(
    name: str, kind: MessageKind, event: str, job: IngestJob, profile: Profile, data: dict[str, Any]
) -> Message:
    body = {"type": event, "timestamp": now().isoformat(timespec="seconds"), "data": data}
    content = json.dumps(body, ensure_ascii=False)
    return Message(name, kind, job.id, content, redact(profile.callback_url), batch=job.batch)


def _job_data(job: IngestJob) -> dict[str, Any]:
    return {
        "job": job.id, "batch": job.batch, "profile": job.profile, "primary_id": job.identifiers.primary,
        "local_ids": list(job.identifiers.local), "submitter": job.configuration.get("submitter"),
        "filename": job.configuration.get("filename"),
    }  # fmt: skip


def callback_of(context: Context, profile: Profile, message: Message) -> callback.Callback:
    """A message, ready to be signed and sent: the profile determines the URL, whatever the message says."""
    if not profile.callback_url:
        raise BadValue("callback", message.id, f"has no recipient: profile {profile.name} has no callback_url")
    secret = context.secret(profile.callback_secret) if profile.callback_secret else ""
    return callback.Callback(profile.callback_url, message.id, message.body.encode(), secret)


# ---------------------------------------------------------------- notices


def announce(context: Context, item: str, notice: str) -> bool:
    """Put a notice about a batch or ingest job into the outbox. False: it exists already, or the profile wants none.

    A worker on another machine asks the service to do so, where content and recipients are decided.
    """
    if context.elsewhere is not None:
        return context.elsewhere.announce(item, notice)
    return NOTICES[notice](context, check_item_id(item))


def _announce_queued(context: Context, item: str) -> bool:
    batch, profile = _batch(context, item), context.profile_of(item)
    if profile is None or not profile.confirmation_mail:
        return False
    jobs = context.queue.jobs(batch=batch.id)
    return _post_mail(context, batch, "queued", report.confirmation(batch, jobs, envelope(context, profile)))


def _announce_report(context: Context, item: str) -> bool:
    """The report of all jobs, or the changes since the last one; none if nothing changed."""
    batch, profile = _batch(context, item), context.profile_of(item)
    if batch.state not in (REPORTING, UPDATE_REPORTING):
        raise QueueRefused(item, "announce", f"it is {batch.state}, not reporting")
    if profile is None or not profile.notification:
        return False
    batch = replace(batch, message=problem_of(context, batch.id))
    jobs, number, to = context.queue.jobs(batch=item), report_number(context, batch), envelope(context, profile)
    if batch.state == REPORTING:
        mail = report.batch_report(batch, jobs, number, to)
    else:
        found = report.update_report(batch, jobs, batch.report or Report((), ()), number, to)
        if found is None:
            return False
        mail = found
    return _post_mail(context, batch, f"report-{number}", mail)


def _announce_failed(context: Context, item: str) -> bool:
    if is_batch(item):
        raise BadValue("item", item, "is not an ingest job")
    job = context.queue.job(item)
    profile = context.profile_of(job.batch)
    if folder_of(job.state) is not Folder.FAILED:
        raise QueueRefused(item, "announce", f"it is {job.state}, not failed")
    if profile is None or not (profile.callback_url and profile.callback_for_failed):
        return False
    return context.inventory.post(failure_message(context, job, profile))


def _announce_recorded(context: Context, item: str) -> bool:
    """For a job whose object another service has recorded; it is about to notify."""
    if is_batch(item):
        raise BadValue("item", item, "is not an ingest job")
    job = context.queue.job(item)
    if job.state != NOTIFY:
        raise QueueRefused(item, "announce", f"it is {job.state}, not {NOTIFY}")
    profile = context.profile(job)
    return bool(profile.callback_url) and context.inventory.post(outside_message(context, job, profile))


#: The function that writes each notice.
NOTICES: Mapping[str, Callable[[Context, str], bool]] = {
    QUEUED: _announce_queued,
    REPORT: _announce_report,
    FAILED: _announce_failed,
    RECORDED: _announce_recorded,
}


def problem_of(context: Context, batch: str) -> str:
    """Why the payload of a batch yielded no jobs; empty: it did yield some."""
    intake = context.inventory.intake(batch)
    return intake.problem if intake else ""


def _batch(context: Context, item: str) -> Batch:
    if not is_batch(item):
        raise BadValue("item", item, "is not a batch")
    return context.queue.batch(item)


# ---------------------------------------------------------------- mails


def report_number(context: Context, batch: Batch) -> int:
    """Reports of a batch are numbered; one that is repeated after a restart keeps its number."""
    reports = [each for each in context.inventory.messages(batch.id) if ".report-" in each.id]
    for each in reports:
        if each.occasion == occasion_of(batch):
            return int(each.id.rpartition("-")[2])
    return len(reports) + 1


def occasion_of(batch: Batch) -> str:
    """The number of the current report of a batch: it stays the same after interruptions and holds.

    The first report is made once; each later one follows another, whose time the batch records.
    """
    if batch.state == REPORTING:
        return batch.state
    before = batch.report.at if batch.report and batch.report.at else batch.since
    return f"{batch.state} {before.isoformat()}"


def _post_mail(context: Context, batch: Batch, name: str, message: EmailMessage) -> bool:
    body = message.as_bytes().decode(errors="surrogateescape")
    found = Message(f"{batch.id}.{name}", MessageKind.MAIL, batch.id, body, occasion=occasion_of(batch), batch=batch.id)
    return context.inventory.post(found)


def envelope(context: Context, profile: Profile) -> report.Envelope:
    """From the service, to the recipients that the profile names."""
    options = context.options
    return report.Envelope(options.mail_from, profile.notification, now(), options.mail_reply_to)


# ---------------------------------------------------------------- sending


def send_due(context: Context) -> int:
    """Send messages that wait and are due. Returns how many messages were due."""
    return outbox.send_due(context.inventory, lambda message: send(context, message), tuple(MessageKind))


def send(context: Context, message: Message) -> None:
    """Send one message, and record the outcome."""
    if message.kind is MessageKind.MAIL:
        _send_mail(context, message)
        return
    sending = callback_of(context, _profile_of(context, message), message)
    callback.deliver(context.service(sending.url), sending, outbox.ONE_TRY)
    context.inventory.delivered(message)


def _profile_of(context: Context, message: Message) -> Profile:
    """The profile that signs a callback: the one that the batch started with, or the current one when the batch no
    longer exists.
    """
    try:
        return context.profile(context.queue.job(message.item))
    except Invalid:
        return context.current_profile(str(json.loads(message.body)["data"]["profile"]))


def _send_mail(context: Context, message: Message) -> None:
    """Each recipient gets it once, as far as the server reports; permanently refused ones are not retried."""
    if context.options.mail_server is None:
        raise BadValue("setting", "mail_server", "is not set, so no mail can be sent")
    parsed = message_from_bytes(message.body.encode(errors="surrogateescape"), policy=SMTP)
    assert isinstance(parsed, EmailMessage)  # noqa: S101 - the policy makes it one
    outbox.deliver_mail(
        context.inventory, context.options.mail_server, message, parsed, _recipients(context, message, parsed)
    )


def _recipients(context: Context, message: Message, parsed: EmailMessage) -> list[str]:
    """The recipients in the mail, as long as the profile of its batch also names them."""
    named = mail.recipients_of(parsed)
    profile = context.profile_of(message.batch or message.item)
    found = named if profile is None else [each for each in named if each in profile.notification]
    if not found:
        raise BadValue("mail", message.id, "has no recipient in its profile")
    return found
