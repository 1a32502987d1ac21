"""Secrets in what people read: passwords, signatures and tokens are hidden in every text that leaves the store or the
process: log, history, errors, reports, answers, output of commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Stands for what is hidden.
MASKED = "***"
#: Log keys whose values are never written.
SECRET_WORDS = ("key", "secret", "password", "authorization", "cookie", "credential")
#: Shorter values are too common to be looked for in texts.
SHORTEST_KNOWN = 8
#: Most values that a process looks for.
MOST_KNOWN = 1000

#: Names of secret parameters: those that contain such a word, and whole names.
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|signature|credential|token|api[_-]?key|authorization"
    r"|\A(?:sig|key|auth|pwd|pass|jwt|sas|session|code)\Z",
    re.IGNORECASE,
)
#: The same outside a URL, where shorter words mean many things, and the number of a grant is called token.
_SECRET_WORD = re.compile(r"password|passwd|passphrase|secret|signature|api[_-]?key", re.IGNORECASE)
_LONG_TOKEN = 12
_NAMED = re.compile(rf"{_SECRET_WORD.pattern}|token\Z", re.IGNORECASE)

# Every repetition before the end of a rule is bounded: a text of any kind takes time in proportion to its length.
_PARAMETER = re.compile(r"(?:[?&;]|%3F|%26)([^=&?;\s%]{1,60})(?:=|%3D)", re.IGNORECASE)
_VALUE_END = re.compile(r"%26|[&#\s\"'<>]")
#: `name = value`, `name="value"`, and `"name": "value"` as JSON has it. A sentence may have a colon behind any word.
_ASSIGNED = re.compile(r"(?<![\w-])([\w-]{1,60})(?:\s{0,3}=\s{0,3}(\\?[\"'])?|\\?[\"']\s{0,3}[=:]\s{0,3}(\\?[\"']))")
#: Where the value ends, by what stands before it.
_ENDS: Mapping[str, re.Pattern[str]] = {
    "": re.compile(r"[\s&,;\"']"),
    **{quote: re.compile(rf"{re.escape(quote)}|[\r\n]") for quote in ("'", '"', "\\'", '\\"')},
}
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # The password of a URL, and a token that stands alone before the host of a web address.
    (re.compile(r"(://[^\s/?#:@\"'<>]{0,200}:)[^\s/?#\"'<>]{0,500}@"), rf"\1{MASKED}@"),
    (re.compile(r"(https?://)[^\s/?#:@\"'<>]{1,500}@", re.IGNORECASE), rf"\1{MASKED}@"),
    (re.compile(r"(\bauthorization\s{0,3}[:=]\s{0,3}(?:\w{1,20}\s{1,3})?)[^\s,;\"']+", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(\bbearer\s{1,3})[\w.~+/=-]{16,}", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(\b(?:set-)?cookie:\s{0,3}[^\s=\"']{1,100}=)[^\r\n\"']+", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(\bx-[\w-]{0,40}(?:key|token|secret|signature):\s{0,3})[^\s,;\"']+", re.IGNORECASE), rf"\1{MASKED}"),
    (re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]+"), rf"\1{MASKED}"),
    # Our own: API tokens (their public part stays), keys of jobs, sign-in codes, keys of signatures.
    (re.compile(r"(\bhg_[a-z0-9]{12}_)[A-Za-z0-9_-]{20,}"), rf"\1{MASKED}"),
    (re.compile(r"(\bhgk_|\bhgc_|\bwhsec_)[A-Za-z0-9_+/=-]{20,}"), rf"\1{MASKED}"),
)
#: Without one of these, no rule finds anything.
_SIGNS = (
    "=", "://", "%3d", "hg_", "hgk_", "hgc_", "whsec_", "bearer", "authorization", "x-", "private key-----", '":', "':",
)  # fmt: skip

#: Only ever added to: other threads read it meanwhile.
_known: list[str] = []


def remember(secrets: Iterable[str]) -> None:
    """From now on, hide these values in every text of this process."""
    from urllib.parse import quote  # Loaded where there is a secret: the command starts faster without.

    for secret in secrets:
        for form in (secret, quote(secret, safe="")):
            if len(secret) >= SHORTEST_KNOWN and form not in _known and len(_known) < MOST_KNOWN:
                _known.append(form)


def redact(text: str) -> str:
    """The text with every secret that can be recognised hidden: by its place, by its form, or since it is known."""
    if _known:
        text = hide(text, _known)
    lowered = text.lower()
    for sign in _SIGNS:  # Most texts have none; `any` takes three times as long.
        if sign in lowered:
            break
    else:
        return text
    text = _without_assigned(_without_parameters(text))
    for rule, left in _RULES:
        text = rule.sub(left, text)
    return text


def _without_parameters(text: str) -> str:
    """Hide the secret parameters of URLs, also of one that is itself a parameter of another."""
    parts, at = [], 0
    for found in _PARAMETER.finditer(text):
        if found.start() >= at and _SECRET_NAME.search(found[1]):
            stop = _end(_VALUE_END, text, found.end())
            parts += [text[at : found.end()], MASKED if stop > found.end() else ""]
            at = stop
    return "".join([*parts, text[at:]])


def _without_assigned(text: str) -> str:
    """Hide what is assigned to the name of a secret; within quotes, up to where they end, or the line."""
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
    """The same for every text within mappings and lists; other values stay as they are."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: redact_all(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(redact_all, value)) if type(value) in (list, tuple) else value
    return value


def hide(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, nor any line of one that has several."""
    return hide_parts(text, sorted(secret_parts(secrets), key=len, reverse=True))


def secret_parts(secrets: Iterable[str]) -> set[str]:
    """The secrets, and each line of those that have several."""
    return {part for secret in secrets for part in (secret, *map(str.strip, secret.splitlines())) if part}


def hide_parts(text: str, parts: Iterable[str]) -> str:
    """A text without these; those that contain others come first."""
    for part in parts:
        text = text.replace(part, MASKED)
    return text


def mask(url: str) -> str:
    """A URL, and nothing else, without its secrets: a password may have any character in it."""
    head, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return redact(f"{head}{mark}{name}:{MASKED}@{host}" if mark and at and colon else url)


def shown(url: str) -> str:
    """The address of a payload or service for people and logs: no user, no password, no query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an unreadable address"
    query = "?…" if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}" if parts.scheme else url.partition("?")[0]
