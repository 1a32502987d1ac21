"""Redaction of passwords, signatures and tokens in every text that leaves the store or the process: log, history,
errors, reports, answers, output of commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: The replacement for a secret.
MASKED = "***"
#: Log keys whose values are never written.
SECRET_WORDS = ("key", "secret", "password", "authorization", "cookie", "credential")
#: Shorter values are too common to be searched for in texts.
SHORTEST_KNOWN = 8
#: Number of values that a process searches for.
MOST_KNOWN = 1000

#: Names of secret parameters: words that they contain, and whole names.
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|signature|credential|token|api[_-]?key|authorization"
    r"|\A(?:sig|key|auth|pwd|pass|jwt|sas|session|code)\Z",
    re.IGNORECASE,
)
#: The same outside URLs, where shorter words have many meanings and `token` is the number of a grant.
_SECRET_WORD = re.compile(r"password|passwd|passphrase|secret|signature|api[_-]?key", re.IGNORECASE)
_LONG_TOKEN = 12
_NAMED = re.compile(rf"{_SECRET_WORD.pattern}|token\Z", re.IGNORECASE)

# Every repetition inside a rule is bounded, so that the time is always proportional to the length of the text.
_PARAMETER = re.compile(r"(?:[?&;]|%3F|%26)([^=&?;\s%]{1,60})(?:=|%3D)", re.IGNORECASE)
_VALUE_END = re.compile(r"%26|[&#\s\"'<>]")
#: `name = value`, `name="value"`, and `"name": "value"` as JSON has it. In sentences any word may be followed by a
#: colon.
_ASSIGNED = re.compile(r"(?<![\w-])([\w-]{1,60})(?:\s{0,3}=\s{0,3}(\\?[\"'])?|\\?[\"']\s{0,3}[=:]\s{0,3}(\\?[\"']))")
#: The end of the value, by the characters before it.
_ENDS: Mapping[str, re.Pattern[str]] = {
    "": re.compile(r"[\s&,;\"']"),
    **{quote: re.compile(rf"{re.escape(quote)}|[\r\n]") for quote in ("'", '"', "\\'", '\\"')},
}
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # The password of a URL, or a token alone before the host of a web address.
    (re.compile(r"(://[^\s/?#:@\"'<>]{0,200}:)[^\s/?#\"'<>]{0,500}@"), rf"\1{MASKED}@"),
    (re.compile(r"(https?://)[^\s/?#:@\"'<>]{1,500}@", re.IGNORECASE), rf"\1{MASKED}@"),
    (re.compile(r"(\bauthorization\s{0,3}[:=]\s{0,3}(?:\w{1,20}\s{1,3})?)[^\s,;\"']+", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(\bbearer\s{1,3})[\w.~+/=-]{16,}", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(\b(?:set-)?cookie:\s{0,3}[^\s=\"']{1,100}=)[^\r\n\"']+", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(\bx-[\w-]{0,40}(?:key|token|secret|signature):\s{0,3})[^\s,;\"']+", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]+"), rf"\1{MASKED}"),
    # Our own: API tokens (their public part stays), keys of jobs, sign-in codes, signing keys.
    (re.compile(r"(\bhg_[a-z0-9]{12}_)[A-Za-z0-9_-]{20,}"), rf"\1{MASKED}"),
    (re.compile(r"(\bhgk_|\bhgc_|\bwhsec_)[A-Za-z0-9_+/=-]{20,}"), rf"\1{MASKED}"),
)
#: No rule matches a text without one of these.
_SIGNS = (
    "=", "://", "%3d", "hg_", "hgk_", "hgc_", "whsec_", "bearer", "authorization", "x-", "private key-----", '":', "':",
)  # fmt: skip

#: Values are only added, because other threads read them at the same time.
_known: list[str] = []


def remember(secrets: Iterable[str]) -> None:
    """Mask these values from now on in every text of this process."""
    from urllib.parse import quote  # Imported only when there is a secret: the command starts faster without it.

    for secret in secrets:
        for form in (secret, quote(secret, safe="")):
            if len(secret) >= SHORTEST_KNOWN and form not in _known and len(_known) < MOST_KNOWN:
                _known.append(form)


def redact(text: str) -> str:
    """The text with every recognisable secret masked: by its position, by its form, or as a known value."""
    if _known:
        text = hide(text, _known)
    lowered = text.lower()
    for sign in _SIGNS:  # Most texts contain none; `any` takes three times as long.
        if sign in lowered:
            break
    else:
        return text
    text = _without_assigned(_without_parameters(text))
    for rule, left in _RULES:
        text = rule.sub(left, text)
    return text


def _without_parameters(text: str) -> str:
    """Mask the secret parameters of URLs, including a URL that is itself a parameter of another."""
    parts, at = [], 0
    for found in _PARAMETER.finditer(text):
        if found.start() >= at and _SECRET_NAME.search(found[1]):
            stop = _end(_VALUE_END, text, found.end())
            parts += [text[at : found.end()], MASKED if stop > found.end() else ""]
            at = stop
    return "".join([*parts, text[at:]])


def _without_assigned(text: str) -> str:
    """Mask values assigned to the name of a secret; within quotes, up to the closing quote or the end of the line."""
    parts, at = [], 0
    for found in _ASSIGNED.finditer(text):
        if found.start() < at or not _NAMED.search(found[1]):
            continue
        quote = found[2] or found[3] or ""
        stop = _end(_ENDS[quote], text, found.end())
        is_secret = _SECRET_WORD.search(found[1]) or stop - found.end() >= _LONG_TOKEN
        if is_secret and stop > found.end():
            parts += [text[at : found.end()], MASKED]
            at = stop
    return "".join([*parts, text[at:]])


def _end(mark: re.Pattern[str], text: str, start: int) -> int:
    found = mark.search(text, start)
    return found.start() if found else len(text)


def redact_all(value: Any) -> Any:
    """The same for every text inside mappings and lists; other values are unchanged."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: redact_all(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(redact_all, value)) if type(value) in (list, tuple) else value
    return value


def hide(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, or any line of a multi-line secret."""
    return hide_parts(text, sorted(secret_parts(secrets), key=len, reverse=True))


def secret_parts(secrets: Iterable[str]) -> set[str]:
    """The secrets, and each line of the multi-line ones."""
    return {part for secret in secrets for part in (secret, *map(str.strip, secret.splitlines())) if part}


def hide_parts(text: str, parts: Iterable[str]) -> str:
    """A text without these; those that contain others come first."""
    for part in parts:
        text = text.replace(part, MASKED)
    return text


def mask(url: str) -> str:
    """A URL, and nothing else, without its secrets: a password may contain any character."""
    head, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return redact(f"{head}{mark}{name}:{MASKED}@{host}" if mark and at and colon else url)


def shown(url: str) -> str:
    """The address of a payload or service for display and logs: without user, password and query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an unreadable address"
    query = "?…" if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}" if parts.scheme else url.partition("?")[0]
