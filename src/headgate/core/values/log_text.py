"""Output of commands as text that is safe to store and display: readable, without secrets, and limited in length.

A secret may be cut in two where the kept end of the output begins, or where the last write ended. Therefore everything
before the first whole line is dropped, and a line that is still being written is left out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headgate.core.values.redaction import MASKED, hide_parts, redact, secret_parts
from headgate.core.values.visible import visible

#: Number of characters searched for the first whole line; longer lines are cut after them.
HEAD = 8192
#: The minimum length of a secret's beginning, at the end of a text, that is masked.
SHORTEST_BEGINNING = 4
#: Shorter secrets are searched for unencoded only.
SHORTEST_CODED = 4
#: The minimum length of base64 that is searched for inside other base64.
SHORTEST_INNER = 8
#: Maximum length of a line that represents a whole log.
LONGEST_LINE = 500
#: Number of characters at the end of an earlier text by which its end is found in a later one.
SEAM = 2000

#: Sequences that a terminal obeys and does not show: colours, cursor moves, titles. Repetitions are bounded, so that
#: the time is proportional to the length of the text.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,8}[0-~]|\x1b"
)
_PERCENT = re.compile("%[0-9A-F]{2}")
#: What is left as it is in parts of URLs: by the strictest rule, in paths, by SQLAlchemy, in JavaScript (a component,
#: and a whole URL), and in the user's part by Go and by RFC 3986.
_SAFE_IN_URLS = ("", "/", " +", "!~*'()", ";,/?:@&=+$!~*'()#", "$&+,;=", "!$&'()*+,;=", "!$&'()*+,;=:@")
#: What JSON that may stand in HTML writes as numbers.
_HTML_SAFE = {ord(each): f"\\u{ord(each):04x}" for each in "<>&"}
#: What a shell takes as it is; everything else may stand behind a backslash.
_SHELL_SPECIAL = re.compile(r"[^\w@%+=:,./-]")
#: Characters in a line of base64, as MIME and PEM have it.
_BASE64_LINES = (76, 64)
_BASE64 = re.compile("[A-Za-z0-9+/_-]+={0,2}")
#: Base64 as it may stand in a URL.
_URL_SAFE = str.maketrans("+/", "-_")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_KEY_BEGINS, _KEY_ENDS = "PRIVATE KEY-----\n", re.compile(r"-----END [A-Z ]{0,30}PRIVATE KEY-----")


@dataclass(frozen=True, slots=True)
class KeptEnd:
    """The end of an output."""

    #: Readable, and without secrets.
    text: str
    #: Whether its beginning was cut off.
    cut: bool


def readable(text: str) -> str:
    r"""The text as a terminal would show it: escape sequences are removed, the carriage returns of progress bars end
    lines, and other control characters are written as `\x07`.
    """
    if text.isprintable():
        return text
    return visible(_LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def secret_forms(secrets: Iterable[str]) -> tuple[str, ...]:
    """The secrets as they may stand in an output: as they are, line by line, and as URLs, JSON, XML, SQL, shells,
    hexadecimal numbers and base64 write them. The longest first.
    """
    found = dict.fromkeys(secret_parts(secrets))
    for part in [part for part in found if len(part) >= SHORTEST_CODED]:
        found.update(dict.fromkeys(_coded(part)))
    found = dict.fromkeys(map(readable, found))
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def _coded(secret: str) -> Iterable[str]:
    import json  # Loaded where there is a secret: a command starts faster without.
    from html import escape

    data = secret.encode(errors="replace")
    documents = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    yield from _in_urls(secret)
    yield from documents
    yield from (form for each in documents for form in (each.replace("/", "\\/"), each.translate(_HTML_SAFE)))
    yield from (escape(secret), escape(secret, quote=False), repr(secret)[1:-1], repr(data)[2:-1])
    yield from (secret.replace("'", "'\\''"), secret.replace("'", "''"), _SHELL_SPECIAL.sub(r"\\\g<0>", secret))
    yield from (data.hex(), data.hex().upper())
    yield from _base64(data)


def _in_urls(secret: str) -> Iterator[str]:
    """The secret as libraries write it in URLs: they differ in what they leave as it is, and in large and small
    letters.
    """
    from urllib.parse import quote, quote_plus

    for form in (*(quote(secret, safe=each) for each in _SAFE_IN_URLS), quote_plus(secret), quote_plus(secret, "*")):
        yield from (form, _PERCENT.sub(lambda found: found[0].lower(), form))


def _base64(secret: bytes) -> Iterator[str]:
    """The secret in base64, also amid other text, such as `user:password`: one form for each place in three bytes. A
    long one may be cut into lines.
    """
    from base64 import b64encode

    whole = b64encode(secret).decode()
    yield from (whole, whole.translate(_URL_SAFE))
    for width in _BASE64_LINES:
        lines = [whole[at : at + width] for at in range(0, len(whole), width)]
        yield from (each for each in lines if len(each) >= SHORTEST_INNER)
    for before in range(3):
        known = b64encode(bytes(before) + secret).decode()[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]
        if len(known) >= SHORTEST_INNER:
            yield from (known, known.translate(_URL_SAFE))


def margin(forms: Sequence[str]) -> int:
    """Number of bytes before the end that must be known to keep that end: a truncated beginning is dropped."""
    return 4 * max([HEAD, *map(len, forms)])


def keep_end(raw: bytes, limit: int, forms: Sequence[str], *, whole: bool, ended: bool) -> KeptEnd:
    """The end of an output, of at most `limit` bytes.

    :param raw: The known part of it: everything if `whole`, otherwise at least `limit` and `margin(forms)` bytes.
    :param forms: The secrets to mask, as listed by `secret_forms`.
    :param ended: True if the output is complete. Otherwise the last line is left out unless it has ended.
    """
    text = readable(raw.decode(errors="replace"))
    if not whole:
        text = _without_head(text, forms)
    if not ended:
        text = text[: text.rfind("\n") + 1]
    text = _without_beginning(redact(hide_parts(_hide_wrapped(text, forms), forms)), forms)
    kept = last_bytes(text, limit)
    return KeptEnd(kept, not whole or len(kept) < len(text))


def last_line(text: str) -> str:
    """The last line that is not blank, as one line of limited length."""
    line = next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")
    return line.replace("\t", " ")[:LONGEST_LINE]


def added(before: str, now: str) -> str | None:
    """The part of a log that is new since it was last read; None: unknown, because too much was written in between."""
    if now.startswith(before):
        return now[len(before) :]
    seam = before[-SEAM:]
    at = now.rfind(seam)
    return None if at < 0 else now[at + len(seam) :]


def _without_head(text: str, forms: Sequence[str]) -> str:
    """Drop the possible rest of a secret: the line that the text begins in, or in a long one the length of a secret."""
    line_end = text.find("\n", 0, HEAD)
    text = text[line_end + 1 :] if line_end >= 0 else text[max([HEAD, *map(len, forms)]) :]
    key_end = _KEY_ENDS.search(text)
    if key_end is not None and _KEY_BEGINS not in text[: key_end.start()]:
        text = MASKED + text[key_end.start() :]
    return text


def _hide_wrapped(text: str, forms: Sequence[str]) -> str:
    """Mask secrets in base64 that is cut into lines anywhere: its lines begin at any place of a secret amid other text.
    The lines stay.
    """
    joined = text.replace("\n", "")
    coded = [form for form in forms if len(form) >= SHORTEST_INNER and _BASE64.fullmatch(form)]
    places = sorted(place for form in coded for place in _places(joined, form))
    return _masked_lines(text, places) if places else text


def _places(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Where a form begins and ends, and where it may have been cut: its end at the beginning of the text, and its
    beginning at the end.
    """
    lengths = range(min(len(form) - 1, len(text)), SHORTEST_INNER - 1, -1)
    if length := next((each for each in lengths if text.startswith(form[-each:])), 0):
        yield 0, length
    if length := next((each for each in lengths if text.endswith(form[:each])), 0):
        yield len(text) - length, len(text)
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _masked_lines(text: str, places: Sequence[tuple[int, int]]) -> str:
    """The text with a mask in each line for what is at these places, which count no line ends. They are sorted."""
    lines, begin, left = [], 0, deque(_merged(places))
    for line in text.split("\n"):
        end, at, shown = begin + len(line), begin, ""
        while left and left[0][0] < end:
            low, high = max(left[0][0], at), min(left[0][1], end)
            shown, at = shown + line[at - begin : low - begin] + MASKED, high
            if left[0][1] > end:  # It goes on in the next line.
                break
            left.popleft()
        lines.append(shown + line[at - begin :])
        begin = end
    return "\n".join(lines)


def _merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places, with those that overlap as one."""
    found: list[tuple[int, int]] = []
    for low, high in places:
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _without_beginning(text: str, forms: Sequence[str]) -> str:
    """Mask the beginning of a secret at the end of the text: the command was stopped in the middle of a write."""
    for form in forms:
        for length in range(min(len(form) - 1, len(text)), SHORTEST_BEGINNING - 1, -1):
            if text.endswith(form[:length]):
                return text[:-length] + MASKED
    return text


def last_bytes(text: str, limit: int) -> str:
    """The end of a text within this many bytes, from the start of a line if there is one."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    end = data[len(data) - limit :].decode(errors="ignore")
    return end[end.find("\n", 0, HEAD) + 1 :]
