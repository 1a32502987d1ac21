"""Notices of incidents: their recipients, how incidents are grouped, and how many notices a recipient gets. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from headgate.core.errors import BadValue
from headgate.core.incidents import SENTENCES, Incident
from headgate.core.inventory import Message, MessageKind
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain
from headgate.core.values.words import check_word, suggestion

#: The subject of messages that are notices; messages of ingest name a batch or job.
ITEM = "incidents"
#: Number of incidents that one notice names; the others are counted.
NAMED = 10
#: The kinds of recipients, by the key of the settings.
CHANNELS: Mapping[str, MessageKind] = {
    "url": MessageKind.WEBHOOK, "slack": MessageKind.SLACK, "mail": MessageKind.NOTICE,
}  # fmt: skip
#: Messages that are notices of incidents.
NOTICE_KINDS = tuple(CHANNELS.values())
#: Places where a secret may be kept: never in the settings themselves.
REFERENCES = ("env:", "file:")
KEYS = (*CHANNELS, "secret", "jobs", "kinds")
HOUR = timedelta(hours=1)
#: An incident that was not reported within this time is not reported any more.
STALE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class NoticeRoute:
    """One recipient, and which notices it gets."""

    name: str
    channel: MessageKind
    #: The URL, or a reference to it; for mail the addresses.
    to: tuple[str, ...]
    #: A reference to the secret that signs a webhook.
    secret: str = ""
    #: Patterns of names of jobs.
    jobs: tuple[str, ...] = ("*",)
    #: Kinds of incidents; empty: any.
    kinds: tuple[str, ...] = ()

    def wants(self, incident: Incident) -> bool:
        """Whether it gets notices about an incident."""
        named = any(fnmatchcase(incident.job, pattern) for pattern in self.jobs)
        return named and (not self.kinds or incident.kind in self.kinds)


@dataclass(frozen=True, slots=True)
class SentNotice:
    """A notice in the outbox, or one that is deferred because its recipient had too many."""

    id: str
    #: The name of its recipient.
    recipient: str
    at: datetime
    #: How many incidents it reports.
    count: int
    #: Its content while it is deferred: number of incidents by job.
    kept: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class NoticePolicy:
    """Grouping and limits of notices."""

    #: Incidents that open within this time are one notice.
    window: timedelta = timedelta(minutes=1)
    #: Number of notices that one recipient gets in an hour.
    most: int = 20


@dataclass(frozen=True, slots=True)
class NoticePlan:
    """The actions for due incidents, carried out in one transaction."""

    reported: Sequence[Incident] = ()
    notices: Sequence[SentNotice] = ()
    messages: Sequence[Message] = field(default=(), repr=False)
    #: Deferred notices that a summary now covers.
    released: Sequence[str] = ()


# ---------------------------------------------------------------- settings


def parse_routes(text: str) -> tuple[NoticeRoute, ...]:
    """The recipients that the settings name. BadValue says which one is wrong, and why."""
    if not text:
        return ()
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise BadValue("notices", text, "is not a table; write [notices.NAME] in headgate.toml")
    return tuple(_route(name, said) for name, said in content.items())


def _route(name: str, said: Any) -> NoticeRoute:
    what = f"notices.{name}"
    if not isinstance(said, dict):
        raise BadValue(what, said, f"is not a table; write [notices.{name}] with one of {', '.join(CHANNELS)}")
    for key in said:
        if key not in KEYS:
            raise BadValue(f"{what}.{key}", said[key], f"is unknown; {suggestion(key, KEYS)}")
    channels = [key for key in CHANNELS if said.get(key)]
    if len(channels) != 1:
        raise BadValue(what, ", ".join(channels) or "-", f"needs exactly one of {', '.join(CHANNELS)}")
    (channel,) = channels
    to, secret = _texts(what, channel, said[channel]), str(said.get("secret", ""))
    _check_secret(f"{what}.secret", secret, wanted=channel == "url")
    if channel != "mail":
        _check_url(f"{what}.{channel}", to)
    elif not all(address.partition("@")[2] for address in to):
        raise BadValue(f"{what}.mail", ", ".join(to), "is not a list of mail addresses")
    jobs, kinds = _texts(what, "jobs", said.get("jobs", ["*"])), _texts(what, "kinds", said.get("kinds", []))
    for kind in kinds:
        check_word(f"{what}.kinds", kind, tuple(SENTENCES))
    return NoticeRoute(name, CHANNELS[channel], to, secret, jobs, kinds)


def _check_secret(what: str, secret: str, *, wanted: bool) -> None:
    if wanted != bool(secret):
        why = "is missing: webhooks are signed" if wanted else "is for webhooks (url) only"
        raise BadValue(what, "…" if secret else "", f"{why}; name it as env:VARIABLE or file:PATH")
    if secret and not secret.startswith(REFERENCES):
        raise BadValue(what, "…", "must not stand here; name it as env:VARIABLE or file:PATH")


def _texts(what: str, key: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise BadValue(f"{what}.{key}", value, "is not a text or a list of texts")
    return tuple(values)


def _check_url(what: str, to: Sequence[str]) -> None:
    (url,) = to if len(to) == 1 else ("",)
    if url.startswith(REFERENCES):
        return
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise BadValue(what, url, "is not one URL: https://host/path, env:VARIABLE or file:PATH")


# ---------------------------------------------------------------- the content of notices


def plan_notices(
    due: Sequence[Incident], sent: Sequence[SentNotice], routes: Sequence[NoticeRoute], policy: NoticePolicy,
    now: datetime, tag: str,
) -> NoticePlan:  # fmt: skip
    """Decide about incidents whose notice is due. `sent`: notices of the last hour, and deferred ones; `tag`:
    distinguishes this store's notices from another's.
    """
    plan = _NoticeDraft(sent, policy, now, tag)
    for closes in (False, True):
        group = [each for each in due if _closes(each) is closes]
        if not group or now - min(each.due or now for each in group) < policy.window:
            continue
        plan.reported += group
        news = [each for each in group if now - (each.due or now) < STALE]
        for route in routes:
            wanted = [each for each in news if route.wants(each)]
            if wanted:
                plan.send(route, wanted, closes=closes)
    for route in routes:
        plan.summarise(route)
    return NoticePlan(tuple(plan.reported), tuple(plan.notices), tuple(plan.messages), tuple(plan.released))


def _closes(incident: Incident) -> bool:
    """Whether the notice says that it closed. One that closed before its report is reported once, as opened."""
    return incident.reported and incident.closed is not None


class _NoticeDraft:
    """A plan in the making."""

    def __init__(self, sent: Sequence[SentNotice], policy: NoticePolicy, now: datetime, tag: str) -> None:
        self._policy, self._now, self._tag = policy, now, tag
        self._counts = Counter(each.recipient for each in sent if each.kept is None and now - each.at < HOUR)
        self._kept = [each for each in sent if each.kept is not None]
        self.reported: list[Incident] = []
        self.notices: list[SentNotice] = []
        self.messages: list[Message] = []
        self.released: list[str] = []

    def send(self, route: NoticeRoute, incidents: Sequence[Incident], *, closes: bool) -> None:
        """One notice; it is kept back if the recipient had as many as it may get, or others are kept back already.

        The last one of the hour is reserved for the summary.
        """
        first = min(incidents, key=lambda each: each.id)
        since = int((first.due or first.at).timestamp() * 1e6)  # The same in every process.
        number = f"incident-{self._tag}-{first.id}-{'closed' if closes else 'opened'}-{since}-{route.name}"
        waits, jobs = any(each.recipient == route.name for each in self._kept), _jobs(incidents)
        if waits or self._counts[route.name] >= self._policy.most - 1:
            self.notices.append(SentNotice(number, route.name, self._now, len(incidents), jobs))
            return
        self._counts[route.name] += 1
        data = {
            "job": next(iter(jobs)) if len(jobs) == 1 else None, "jobs": jobs, "count": len(incidents),
            "incidents": [_document(each) for each in incidents[:NAMED]],
        }  # fmt: skip
        self._post(route, number, f"incident.{'closed' if closes else 'opened'}", data, _text(incidents, closes=closes))

    def summarise(self, route: NoticeRoute) -> None:
        """Summarise everything that was deferred, once the recipient may get a notice again."""
        kept = [each for each in self._kept if each.recipient == route.name]
        if not kept or self._counts[route.name] >= self._policy.most:
            return
        jobs: Counter[str] = Counter()
        for each in kept:
            jobs.update(each.kept or {})
        total = sum(jobs.values())
        since = f"{kept[0].at:%Y-%m-%d %H:%M} UTC"
        text = f"{plural(total, 'more incident')} opened or closed since {since}: {_listed(jobs)}"
        number = f"{kept[0].id}-summary"
        self._post(route, number, "incident.summary", {"count": total, "jobs": dict(jobs)}, text)
        self.released += [each.id for each in kept]

    def _post(self, route: NoticeRoute, number: str, event: str, data: Mapping[str, Any], text: str) -> None:
        body = {"type": event, "timestamp": plain(self._now), "data": dict(data)}
        if route.channel is not MessageKind.WEBHOOK:
            body["text"] = text
        number = number.replace(".", "_")[:200]  # Standard Webhooks: an id contains no dot.
        content = json.dumps(body if route.channel is not MessageKind.SLACK else {"text": text}, ensure_ascii=False)
        self.messages.append(Message(number, route.channel, ITEM, content, route.name))
        self.notices.append(SentNotice(number, route.name, self._now, int(data["count"])))


def _document(incident: Incident) -> dict[str, Any]:
    names = ("id", "kind", "job", "subject", "message", "since", "at", "count", "closed", "closed_by", "state")
    return {name: plain(getattr(incident, name)) for name in names}


def _jobs(incidents: Sequence[Incident]) -> Mapping[str, int]:
    """How many there are of each job, most first."""
    return dict(Counter(each.job for each in incidents).most_common())


def _listed(jobs: Mapping[str, int]) -> str:
    """The jobs with most incidents: `clean 30, monthly 9`."""
    named = [f"{job or 'no job'} {count:,}" for job, count in Counter(jobs).most_common(NAMED)]
    more = len(jobs) - NAMED
    return ", ".join([*named, f"and {plural(more, 'more job')}"] if more > 0 else named)


def _text(incidents: Sequence[Incident], *, closes: bool) -> str:
    """For people: a heading, and a line for each of the first incidents."""
    if len(incidents) == 1:
        return incidents[0].sentence
    jobs, what = _jobs(incidents), "recovered" if closes else "in trouble"
    head = f"{plural(len(incidents), 'incident')}, {what}"
    if len(jobs) > 1:
        head = f"{plural(len(jobs), 'job')}: {head}: {_listed(jobs)}"
    else:
        head = f"{next(iter(jobs)) or 'no job'}: {head}"
    lines = [head, *(f"- {each.sentence}" for each in incidents[:NAMED])]
    more = len(incidents) - NAMED
    return "\n".join([*lines, f"- and {more:,} more"] if more > 0 else lines)
