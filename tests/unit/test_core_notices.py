"""Which recipient gets which notices, how incidents are grouped, and how many notices a recipient gets."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import BadValue
from headgate.core.incidents import Incident
from headgate.core.notices import NoticePlan, NoticePolicy, NoticeRoute, SentNotice, parse_routes, plan_notices

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
LATE = NOW - timedelta(minutes=2)
OPS = parse_routes(json.dumps({"ops": {"url": "https://hooks.example.org/x", "secret": "env:HOOK"}}))


def incident(number: int, job: str = "clean", **more: Any) -> Incident:
    return Incident(number, "failed", job, str(number), "disk full", LATE, LATE, **{"due": LATE, **more})


def plan(
    due: list[Incident], sent: tuple[SentNotice, ...] = (), routes: tuple[NoticeRoute, ...] = OPS, most: int = 20
) -> NoticePlan:  # fmt: skip
    return plan_notices(due, sent, routes, NoticePolicy(most=most), NOW, "a1b2")


def test_an_outage_is_one_message_with_a_count_and_the_first_few() -> None:
    found = plan([incident(number) for number in range(1, 31)])
    (message,) = found.messages
    data = json.loads(message.body)["data"]
    assert (data["job"], data["count"], len(data["incidents"])) == ("clean", 30, 10)
    assert message.id.startswith("incident-a1b2-1-opened-")
    assert "." not in message.id
    assert len(found.reported) == 30


def test_incidents_wait_until_the_window_of_the_first_is_over() -> None:
    young = incident(1, due=NOW - timedelta(seconds=59))
    assert plan([young]) == NoticePlan((), (), (), ())
    assert len(plan([young, incident(2)]).reported) == 2, "a later one joins the earlier"


def test_an_outage_of_several_jobs_is_one_message_too() -> None:
    jobs = ["clean"] * 12 + ["report"] * 3 + [""]
    due = [incident(number, job) for number, job in enumerate(jobs, 1)]
    found = plan(due, routes=(*OPS, *parse_routes(json.dumps({"team": {"slack": "https://hooks.slack.com/x"}}))))
    webhook, slack = (json.loads(each.body) for each in found.messages)
    assert (webhook["data"]["job"], webhook["data"]["count"]) == (None, 16)
    assert webhook["data"]["jobs"] == {"clean": 12, "report": 3, "": 1}
    lines = slack["text"].splitlines()
    assert lines[0] == "3 jobs: 16 incidents, in trouble: clean 12, report 3, no job 1"
    assert (len(lines), lines[-1]) == (12, "- and 6 more")


def test_one_late_incident_does_not_wait_for_others() -> None:
    young = incident(1, "report", due=NOW - timedelta(seconds=59))
    assert [each.id for each in plan([young, incident(2)]).reported] == [1, 2]


def test_closed_incidents_are_a_separate_notice() -> None:
    closed = incident(3, reported=True, closed=LATE, closed_by="success", state="closed")
    quick = incident(4, closed=LATE, closed_by="success", state="closed")
    found = plan([incident(1), closed, quick])
    said = {json.loads(each.body)["type"]: json.loads(each.body)["data"]["count"] for each in found.messages}
    assert said == {"incident.opened": 2, "incident.closed": 1}
    opened = next(each for each in found.messages if "-1-opened" in each.id)
    states = [each["state"] for each in json.loads(opened.body)["data"]["incidents"]]
    assert states == ["open", "closed"], "one that closed before its report is reported once"


@pytest.mark.parametrize(
    ("event", "sentence"),
    [("arrival", "raw/1 was late, and is READY now"), ("definition", "raw/1 was late, and is not expected any more"),
     ("forget", "raw/1 is late; closed by forget")],
)  # fmt: skip
def test_a_late_chunk_that_arrived_is_no_longer_late(event: str, sentence: str) -> None:
    closed = Incident(1, "late", "", "raw/1", "raw/1 was never published", NOW, NOW, closed=NOW, closed_by=event)
    assert closed.sentence == sentence


def test_recipients_get_the_jobs_and_kinds_in_their_settings() -> None:
    table = {
        "ops": {"slack": "https://hooks.slack.com/x", "jobs": "cl*"},
        "night": {"mail": ["ann@example.org"], "kinds": ["crashes"]},
    }
    found = plan(
        [incident(1), incident(2, "report"), replace(incident(3), kind="crashes")],
        routes=parse_routes(json.dumps(table)),
    )
    to = [(each.to, json.loads(each.body)) for each in found.messages]
    assert [name for name, _ in to] == ["ops", "night"]
    lines = ("- clean 1 failed for good: disk full", "- clean 3 keeps crashing its workers: disk full")
    assert to[0][1] == {"text": "\n".join(("clean: 2 incidents, in trouble", *lines))}
    assert len(found.reported) == 3, "nobody wants it: it is reported, to nobody"


def test_a_recipient_at_its_limit_gets_a_summary() -> None:
    sent = tuple(SentNotice(f"n{number}", "ops", NOW - timedelta(minutes=30), 1) for number in range(2))
    first = plan([incident(1), incident(2, "report")], sent, most=3)
    assert first.messages == ()
    assert [each.kept for each in first.notices] == [{"clean": 1, "report": 1}]
    summary = plan([], (*sent, *first.notices), most=3)
    (message,) = summary.messages
    assert json.loads(message.body)["data"] == {"count": 2, "jobs": {"clean": 1, "report": 1}}
    assert summary.released == tuple(each.id for each in first.notices)
    full = (*sent, SentNotice("n9", "ops", NOW, 1), *first.notices)
    assert plan([], full, most=3).messages == (), "not before the hour is over"


def test_old_incidents_are_not_sent() -> None:
    old = incident(1, due=NOW - timedelta(days=2))
    found = plan([old])
    assert (found.messages, found.reported) == ((), (old,))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"ops": "https://x"}, "is not a table"),
        ({"ops": {}}, "needs exactly one of url, slack, mail"),
        ({"ops": {"url": "https://x", "slack": "https://y"}}, "needs exactly one"),
        ({"ops": {"url": "https://x"}}, "secret.*is missing: webhooks are signed"),
        ({"ops": {"url": "https://x", "secret": "whsec_abc"}}, "must not stand here"),
        ({"ops": {"url": "ftp://x", "secret": "env:A"}}, "is not one URL"),
        ({"ops": {"url": "https://", "secret": "env:A"}}, "is not one URL"),
        ({"ops": {"slack": "https://x", "secret": "env:A"}}, "for webhooks"),
        ({"ops": {"mail": "ann"}}, "mail addresses"),
        ({"ops": {"mail": "a@b", "job": "x"}}, "unknown; did you mean 'jobs'"),
        ({"ops": {"mail": "a@b", "jobs": [1]}}, "list of texts"),
        ({"ops": {"mail": "a@b", "kinds": ["crash"]}}, "kinds 'crash' is not one of .*did you mean 'crashes'"),
    ],
)
def test_wrong_settings_are_named(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadValue, match=why) as refused:
        parse_routes(json.dumps(said))
    assert "whsec_abc" not in str(refused.value)
