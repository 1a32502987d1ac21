"""Reports: their content, protection against injection, and when none is sent."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.core.queue.model import Batch, Identifiers, IngestJob, Report, Submission
from headgate.ingest.notices.batch_mails import Envelope, batch_report, confirmation, status_report, update_report

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ENVELOPE = Envelope("ingest@example.org", ("ann@example.org", "ben@example.org"), NOW, "help@example.org")
BATCH = Batch("bid0000000007", "reporting", Submission("demo", "ann", "http://h/x", request_id="r1"), "", NOW)


def job(number: int, state: str, message: str = "", title: str = "", local: tuple[str, ...] = ()) -> IngestJob:
    return IngestJob(
        f"jid{number:010}", BATCH.id, state, None, 0, 5, 0, Identifiers(f"ark:/99999/fk4{number}", local),
        {"erc_what": title, "erc_who": "Ann"}, message, NOW,
    )  # fmt: skip


JOBS = [
    job(3, "failed", "b.jpg: status 404", "Three"),
    job(1, "completed", title="One", local=("l1",)),
    job(2, "cleaned"),
]


def text_of(message: EmailMessage) -> str:
    body = message.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def data_of(message: EmailMessage) -> dict[str, Any]:
    (attached,) = message.iter_attachments()
    assert attached.get_content_type() == "application/json"
    found: dict[str, Any] = json.loads(attached.get_content())
    return found


def sent(message: EmailMessage) -> EmailMessage:
    """As received."""
    received = message_from_bytes(bytes(message), policy=SMTP)
    assert isinstance(received, EmailMessage)
    return received


def test_the_report_of_a_batch() -> None:
    message = sent(batch_report(BATCH, JOBS, 1, ENVELOPE))
    assert message["Subject"] == "Ingest: FAIL -- Submission processed: bid0000000007"
    assert message["From"] == "ingest@example.org"
    assert message["To"] == "ann@example.org, ben@example.org"
    assert message["Reply-To"] == "help@example.org"
    assert message["Date"] == "Sun, 15 Nov 2026 12:00:00 +0000"
    assert text_of(message) == (
        "Submission ID: bid0000000007\nProfile: demo\nUser agent: ann\nJobs completed: 2\nJobs failed: 1\n\n"
        "Failed:\n  jid0000000003 | ark:/99999/fk43 | Three\n      b.jpg: status 404\n\n"
        "Completed:\n  jid0000000001 | ark:/99999/fk41 | l1 | One\n  jid0000000002 | ark:/99999/fk42\n"
    )
    data = data_of(message)
    assert [row["job"] for row in data["failed_jobs"]] == ["jid0000000003"]
    assert data["completed_jobs"][0] == {
        "job": "jid0000000001", "state": "completed", "message": "", "primary_id": "ark:/99999/fk41",
        "local_ids": ["l1"], "title": "One", "creator": "Ann", "date": None, "filename": None,
    }  # fmt: skip
    assert (data["batch"], data["report"], data["profile"]) == ("bid0000000007", 1, "demo")


def test_reports_of_a_successful_batch_and_of_one_without_jobs() -> None:
    well = batch_report(BATCH, JOBS[1:], 1, ENVELOPE)
    assert well["Subject"] == "Ingest: OK -- Submission processed: bid0000000007"
    none = batch_report(replace(BATCH, message="the manifest has errors:\n  line 3: x"), [], 1, ENVELOPE)
    assert none["Subject"].startswith("Ingest: FAIL")
    assert "Message: the manifest has errors: line 3: x" in text_of(none)


def test_a_confirmation() -> None:
    message = sent(confirmation(BATCH, JOBS, ENVELOPE))
    assert message["Subject"] == "Ingest: OK -- Submission queued: bid0000000007"
    assert "Jobs: 3" in text_of(message)
    assert len(data_of(message)["jobs"]) == 3


# ---------------------------------------------------------------- one report, one id


def test_the_same_report_is_the_same_to_the_byte() -> None:
    assert bytes(batch_report(BATCH, JOBS, 1, ENVELOPE)) == bytes(batch_report(BATCH, reversed(JOBS), 1, ENVELOPE))


def test_ids_tell_batches_reports_and_stores_apart() -> None:
    later = replace(ENVELOPE, at=datetime(2027, 1, 1, tzinfo=UTC))
    other_store = replace(BATCH, submission=replace(BATCH.submission, request_id="r2"))
    other_batch = replace(BATCH, id="bid0000000008")
    ids = [
        batch_report(BATCH, JOBS, 1, ENVELOPE)["Message-ID"],
        batch_report(BATCH, JOBS, 2, ENVELOPE)["Message-ID"],
        batch_report(other_store, JOBS, 1, ENVELOPE)["Message-ID"],
        batch_report(other_batch, JOBS, 1, ENVELOPE)["Message-ID"],
        confirmation(BATCH, JOBS, ENVELOPE)["Message-ID"],
    ]
    assert len(set(ids)) == 5
    assert ids[0].startswith("<bid0000000007.report-1.")
    assert ids[0].endswith("@example.org>")
    assert batch_report(BATCH, JOBS[:1], 1, later)["Message-ID"] == ids[0]


# ---------------------------------------------------------------- what changed


def test_an_update_lists_what_changed_and_apart_what_is_still_failed() -> None:
    before = status_report([job(1, "completed"), job(2, "failed"), job(3, "failed"), job(4, "failed")])
    assert before == Report(("jid0000000002", "jid0000000003", "jid0000000004"), ("jid0000000001",))
    now = [job(1, "completed"), job(2, "completed"), job(3, "failed", "again"), job(5, "failed", "late")]
    message = update_report(BATCH, now, before, 2, ENVELOPE)
    assert message is not None
    data = data_of(sent(message))
    assert {name: [row["job"][-1] for row in rows] for name, rows in data.items() if name.endswith("_jobs")} == {
        "completed_since_jobs": ["2"], "failed_since_jobs": ["5"], "still_failed_jobs": ["3"],
    }  # fmt: skip
    assert "jid0000000001" not in text_of(message)
    assert "Still failed:\n  jid0000000003 | ark:/99999/fk43\n      again" in text_of(message)
    assert message["Subject"] == "Ingest: FAIL -- Submission updated: bid0000000007"


def test_the_update_says_when_all_jobs_have_succeeded() -> None:
    message = update_report(BATCH, [job(1, "completed")], Report(("jid0000000001",), ()), 2, ENVELOPE)
    assert message is not None
    assert message["Subject"] == "Ingest: OK -- Submission updated: bid0000000007"


@given(st.lists(st.sampled_from(["completed", "cleaned", "failed", "processing"]), max_size=6))
def test_when_nothing_changed_there_is_no_update(states: list[str]) -> None:
    jobs = [job(number, state) for number, state in enumerate(states)]
    assert update_report(BATCH, jobs, status_report(jobs), 2, ENVELOPE) is None
    # Clean-up and deletion change nothing that a depositor has to know.
    cleaned = [job(number, "cleaned" if state == "completed" else state) for number, state in enumerate(states)]
    assert update_report(BATCH, cleaned, status_report(jobs), 2, ENVELOPE) is None
    assert update_report(BATCH, jobs[1:], status_report(jobs), 2, ENVELOPE) is None


# ---------------------------------------------------------------- submitted text

NASTY = "x\r\nBcc: all@example.org\r\n\r\n<script>\u202etxt.exe\0\u2028.\r\n"


def test_submitted_text_cannot_inject_headers_or_lines() -> None:
    batch = replace(BATCH, submission=Submission(NASTY, NASTY, NASTY, request_id=NASTY), message=NASTY)
    bad = job(1, "failed", NASTY, NASTY, (NASTY,))
    for message in (
        batch_report(batch, [bad], 1, ENVELOPE),
        confirmation(batch, [bad], ENVELOPE),
        update_report(batch, [bad], Report((), ()), 2, ENVELOPE),
    ):
        assert message is not None
        received = sent(message)
        assert received["Bcc"] is None
        assert list(received) == [
            "From", "To", "Reply-To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type",
        ]  # fmt: skip
        assert not any(line.startswith(("Bcc", "<script")) for line in text_of(received).splitlines())
        assert "\u202e" not in text_of(received)
    assert data_of(batch_report(batch, [bad], 1, ENVELOPE))["failed_jobs"][0]["title"] == NASTY


@given(st.text(max_size=60))
def test_whatever_was_submitted_the_report_can_be_sent_and_read(text: str) -> None:
    received = sent(batch_report(BATCH, [job(1, "failed", text, text)], 1, ENVELOPE))
    assert len(text_of(received).splitlines()) <= 9
    assert data_of(received)["failed_jobs"][0]["title"] == text


def test_an_unpaired_surrogate_can_be_sent_too() -> None:
    assert data_of(sent(batch_report(BATCH, [job(1, "failed", title="\ud800")], 1, ENVELOPE)))["batch"] == BATCH.id


def test_a_long_list_is_cut_in_the_text_and_whole_in_the_attachment() -> None:
    message = batch_report(BATCH, [job(number, "failed", "m" * 900) for number in range(500)], 1, ENVELOPE)
    assert "and 300 more, all of them in the attachment" in text_of(message)
    assert "m" * 199 + "…\n" in text_of(message)
    assert len(data_of(message)["failed_jobs"]) == 500


@pytest.mark.parametrize(
    "address", ["", "nobody", "a@b@c", "a b@example.org", "a@example.org\r\nBcc: x@y.org", "<a@b.org>", "@b"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(BadValue, match="mail address"):
        batch_report(BATCH, JOBS, 1, Envelope(address, ("ann@example.org",), NOW))
    with pytest.raises(BadValue, match="mail address"):
        batch_report(BATCH, JOBS, 1, Envelope("ingest@example.org", (address,), NOW))


def test_a_report_goes_to_somebody() -> None:
    with pytest.raises(BadValue, match="recipients"):
        batch_report(BATCH, JOBS, 1, Envelope("ingest@example.org", (), NOW))
