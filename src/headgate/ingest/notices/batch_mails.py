"""Mails to depositors: that a batch was accepted, how it ended, and what has changed since. Mail with JSON attached."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.queue.model import Batch, Folder, IngestJob, Report, folder_of
from headgate.core.values.redaction import redact
from headgate.ingest.profiles.values import mail_address

#: Maximum number of characters of one value in the text; the attachment has all of them.
LONGEST_VALUE = 200
#: Number of jobs of each kind that the text lists; the attachment has all of them.
LONGEST_LIST = 200


@dataclass(frozen=True, slots=True)
class Envelope:
    """Return sender, recipients and date: those of the service and the profile, never of the submission."""

    sender: str
    recipients: tuple[str, ...]
    at: datetime
    reply_to: str = ""


def confirmation(batch: Batch, jobs: Sequence[IngestJob], envelope: Envelope) -> EmailMessage:
    """Return the notice that a batch was accepted, with the number of its objects."""
    text = [*_head(batch), f"Jobs: {len(jobs)}", "", *_listed("Accepted", jobs)]
    data = _document(batch, 0, envelope) | {"jobs": [_row(job) for job in jobs]}
    return _message(batch, "queued", f"Ingest: OK -- Submission queued: {batch.id}", text, data, envelope)


def batch_report(batch: Batch, jobs: Iterable[IngestJob], number: int, envelope: Envelope) -> EmailMessage:
    """The report about the end of a batch. Reports of a batch are numbered from 1."""
    completed, failed = _sorted(jobs)
    text = [*_head(batch), f"Jobs completed: {len(completed)}", f"Jobs failed: {len(failed)}"]
    text += [f"Message: {_plain(batch.message)}"] if batch.message else []
    text += ["", *_listed("Failed", failed), *_listed("Completed", completed)]
    data = _document(batch, number, envelope) | {
        "failed_jobs": [_row(job) for job in failed],
        "completed_jobs": [_row(job) for job in completed],
    }
    went_well = completed and not failed
    subject = f"Ingest: {'OK' if went_well else 'FAIL'} -- Submission processed: {batch.id}"
    return _message(batch, f"report-{number}", subject, text, data, envelope)


def update_report(
    batch: Batch, jobs: Iterable[IngestJob], before: Report, number: int, envelope: Envelope
) -> EmailMessage | None:
    """The changes since the last report; None: there are none, and nobody is notified."""
    completed, failed = _sorted(jobs)
    succeeded = [job for job in completed if job.id not in before.successful]
    newly_failed = [job for job in failed if job.id not in before.failed]
    if not succeeded and not newly_failed:
        return None
    still_failed = [job for job in failed if job.id in before.failed]
    parts = {"Completed since": succeeded, "Failed since": newly_failed, "Still failed": still_failed}
    text = [*_head(batch), *(f"Jobs {title.lower()}: {len(rows)}" for title, rows in parts.items() if rows), ""]
    for title, rows in parts.items():
        text += _listed(title, rows)
    data = _document(batch, number, envelope) | {
        f"{title.lower().replace(' ', '_')}_jobs": [_row(job) for job in rows] for title, rows in parts.items()
    }
    subject = f"Ingest: {'FAIL' if failed else 'OK'} -- Submission updated: {batch.id}"
    return _message(batch, f"report-{number}", subject, text, data, envelope)


def status_report(jobs: Iterable[IngestJob]) -> Report:
    """The content of the batch's status-report: always the full lists."""
    completed, failed = _sorted(jobs)
    return Report(tuple(job.id for job in failed), tuple(job.id for job in completed))


def _sorted(jobs: Iterable[IngestJob]) -> tuple[list[IngestJob], list[IngestJob]]:
    ordered = sorted(jobs, key=lambda job: job.id)
    completed = [job for job in ordered if folder_of(job.state) is Folder.COMPLETED]
    return completed, [job for job in ordered if folder_of(job.state) is Folder.FAILED]


def _head(batch: Batch) -> list[str]:
    return [
        f"Submission ID: {batch.id}",
        f"Profile: {_plain(batch.profile)}",
        f"User agent: {_plain(batch.submission.submitter)}",
    ]


def _listed(title: str, jobs: Sequence[IngestJob]) -> list[str]:
    lines = [f"  {_line(job)}" for job in jobs[:LONGEST_LIST]]
    more = len(jobs) - len(lines)
    lines += [f"  and {more:,} more, all of them in the attachment"] if more > 0 else []
    return [f"{title}:", *lines, ""] if jobs else []


def _line(job: IngestJob) -> str:
    names = [job.identifiers.primary, *job.identifiers.local, job.configuration.get("erc_what")]
    shown = [job.id, *(_plain(name) for name in names if name)]
    failed = folder_of(job.state) is Folder.FAILED
    return " | ".join(shown) + (f"\n      {_plain(job.message)}" if failed and job.message else "")


def _row(job: IngestJob) -> dict[str, Any]:
    return {
        "job": job.id,
        "state": job.state,
        "message": redact(job.message),
        "primary_id": job.identifiers.primary,
        "local_ids": list(job.identifiers.local),
        "title": job.configuration.get("erc_what"),
        "creator": job.configuration.get("erc_who"),
        "date": job.configuration.get("erc_when"),
        "filename": job.configuration.get("filename"),
    }


def _document(batch: Batch, number: int, envelope: Envelope) -> dict[str, Any]:
    return {
        "batch": batch.id,
        "profile": batch.profile,
        "submitter": batch.submission.submitter,
        "report": number,
        "message": redact(batch.message),
        "at": envelope.at.isoformat(),
    }


def _plain(value: object) -> str:
    """One short line, whatever was submitted: without line ends, control characters and bidi controls."""
    text = " ".join(redact(str(value)).split())
    text = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _address(text: str) -> Address:
    return Address(addr_spec=mail_address(text))


def _message(
    batch: Batch, kind: str, subject: str, text: Sequence[str], data: dict[str, Any], envelope: Envelope
) -> EmailMessage:
    """The same report always has exactly the same bytes, so that a repeat is recognised."""
    if not envelope.recipients:
        raise BadValue("recipients", envelope.recipients, "are missing; set notification in the profile")
    name = f"{batch.id}.{kind}"
    message = EmailMessage(policy=SMTP)
    sender = _address(envelope.sender)
    message["From"] = sender
    message["To"] = [_address(each) for each in envelope.recipients]
    if envelope.reply_to:
        message["Reply-To"] = _address(envelope.reply_to)
    message["Subject"] = subject
    message["Date"] = format_datetime(envelope.at)
    message["Message-ID"] = f"<{name}.{batch.submission.origin}@{sender.domain}>"
    # Prevents automatic replies (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(text).rstrip() + "\n")
    attached = json.dumps(data, indent=2, ensure_ascii=False).encode(errors="replace")
    message.add_attachment(attached, maintype="application", subtype="json", filename=f"{name}.json")
    message.set_boundary(f"headgate-{hashlib.sha256(attached).hexdigest()[:32]}")
    return message
