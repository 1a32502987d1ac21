"""Output as text that is safe to keep: readable, without secrets however they are split, and bounded."""

import json
import re
import time
from base64 import b64encode, urlsafe_b64encode
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.logs import LogStream
from headgate.core.values import log_text
from headgate.core.values.log_text import added, keep_end, last_line, readable, secret_forms
from headgate.core.values.redaction import MASKED
from headgate.service.logs import Tail

SECRET = 'tr0ub4dor"&3 pass\\word'
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq8Zy7vLx\n-----END RSA PRIVATE KEY-----"


def kept(raw: bytes, limit: int = 65536, *secrets: str, whole: bool = True, ended: bool = True) -> str:
    return keep_end(raw, limit, secret_forms(secrets), whole=whole, ended=ended).text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"\x1b[31;1mred\x1b[0m and \x1b]0;a title\x07more", "red and more"),
        (b"\x1bP1$r0m\x1b\\done \x1b(Bx \x1b", "done x "),
        (b"\x1b]0;never ended\nnext", "0;never ended\nnext"),
        (b"10%\r20%\r100%\r\ndone\r\n", "10%\n20%\n100%\ndone\n"),
        (b"caf\xc3\xa9 \xff\xfe", "café \ufffd\ufffd"),
        (b"a\x00b\x07c\x08", "a\\x00b\\x07c\\x08"),
        ("\u202eevil\u2028line\u0085x".encode(), "\\u202eevil\nline\nx"),
    ],
)
def test_output_becomes_text_without_terminal_commands(raw: bytes, text: str) -> None:
    assert readable(raw.decode(errors="replace")) == text


@given(st.binary(max_size=300))
def test_any_bytes_become_text_without_control_characters(raw: bytes) -> None:
    text = kept(raw)
    assert all(each.isprintable() or each in "\n\t" or each.isspace() for each in text)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "written",
    [
        SECRET, json.dumps(SECRET), quote(SECRET), quote(SECRET, safe=""), repr(SECRET),
        b64encode(SECRET.encode()).decode(), f"\x1b[1m{SECRET[:5]}\x1b[31m{SECRET[5:]}\x1b[0m",
        json.dumps({"a": SECRET}), quote_plus(SECRET), quote(SECRET).lower(), escape(SECRET),
        escape(SECRET, quote=False),
        *(b64encode(f"{user}:{SECRET}@host".encode()).decode() for user in ("", "u", "me", "ann")),
        *(urlsafe_b64encode(f"{user}{SECRET}".encode()).decode() for user in ("", "u", "me")),
    ],
)  # fmt: skip
def test_a_secret_is_masked_however_it_is_written(written: str) -> None:
    text = kept(f"before {written} after\n".encode(), 65536, SECRET)
    assert MASKED in text
    for part in ("ub4dor", "pass\\word", "word", "WI0ZG9y", "R1YjRkb3", "HViNGRvc"):
        assert part not in text


@pytest.mark.parametrize(
    "written",
    [
        "p%40ss%20w'o%2Frd!%26*",  # JavaScript: encodeURIComponent
        "p@ss%20w'o/rd!&*",  # JavaScript: encodeURI
        "p%40ss w%27o%2Frd%21%26%2A",  # SQLAlchemy
        "p%40ss%20w%27o%2Frd%21&%2A",  # Go: url.UserPassword
        "p%40ss+w%27o%2Frd%21%26*",  # Java: URLEncoder
        "p@ss\\ w\\'o/rd\\!\\&\\*",  # bash: printf %q
        "p@ss w''o/rd!&*",  # SQL
        "p@ss w'o\\/rd!&*",  # PHP: json_encode
        "p@ss w'o/rd!\\u0026*",  # Go: json.Marshal
        "704073732077276f2f726421262a",  # PostgreSQL: bytea
        "704073732077276F2F726421262A",
    ],
)
def test_a_secret_is_masked_as_other_languages_write_it(written: str) -> None:
    assert kept(f"before {written} after\n".encode(), 65536, "p@ss w'o/rd!&*") == f"before {MASKED} after\n"


@pytest.mark.parametrize("width", [76, 64])
def test_a_long_secret_is_masked_also_in_lines_of_base64(width: int) -> None:
    secret = "".join(f"{number:03}-" for number in range(50))
    lines = re.sub(f"(.{{{width}}})", r"\1\n", b64encode(secret.encode()).decode()).splitlines()
    text = kept("\n".join(["before", *lines, "after", ""]).encode(), 65536, secret)
    assert text.splitlines() == ["before", *([MASKED] * len(lines)), "after"]


@pytest.mark.parametrize("width", [76, 64, 60])
@pytest.mark.parametrize("before", [*range(60), 200])
def test_a_secret_amid_other_text_is_masked_in_lines_of_base64(width: int, before: int) -> None:
    secret = "".join(f"{number:03}-" for number in range(30))
    coded = b64encode(f"{'u' * before}{secret}:more and more".encode()).decode()
    lines = re.sub(f"(.{{{width}}})", r"\1\n", coded).splitlines()
    text = kept("\n".join(["before", *lines, "after", ""]).encode(), 65536, secret)
    inner = b64encode(bytes(before % 3) + secret.encode()).decode()[4:-4]
    left = text.replace("\n", "")
    assert not [inner[at : at + 6] for at in range(len(inner) - 5) if inner[at : at + 6] in left]
    assert len(text.splitlines()) == len(lines) + 2, "the lines stay"
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


@pytest.mark.parametrize("width", [76, 60])
def test_a_secret_in_lines_of_base64_is_masked_wherever_the_output_is_cut(width: int) -> None:
    """Between two writes, and where the kept end begins."""
    secret = "".join(f"{number:03}-" for number in range(60))
    coded = b64encode(f"user:{secret}:more and more".encode()).decode()
    lines = re.sub(f"(.{{{width}}})", r"\1\n", coded).splitlines()
    inner = b64encode(bytes(2) + secret.encode()).decode()[4:-4]
    pieces = {inner[at : at + 12] for at in range(len(inner) - 11)}
    for cut in range(1, len(lines)):
        begun = kept("\n".join(["before", *lines[:cut], ""]).encode(), 65536, secret, ended=False)
        rest = kept("\n".join([*lines[cut - 1 :], "after", ""]).encode(), 65536, secret, whole=False)
        for text in (begun, rest):
            assert not [piece for piece in pieces if piece in text.replace("\n", "")]


def test_lines_that_hold_many_secrets_are_masked_in_bounded_time() -> None:
    secret = "aB3" * 20
    coded = b64encode(secret.encode() * 20_000).decode()
    began = time.process_time()
    text = kept(re.sub("(.{76})", r"\1\n", coded).encode(), 1 << 22, secret)
    assert time.process_time() - began < 10
    assert set(text) <= set(f"{MASKED}\n")


def test_each_line_of_a_secret_of_several_lines_is_masked() -> None:
    assert kept(b"x\nq8Zy7vLx\nMIIEowIBAAKCAQEA\n", 65536, KEY) == "x\n***\n***\n"


def test_the_rest_of_a_key_whose_beginning_was_dropped_is_masked() -> None:
    raw = f"cut here\n{KEY.split(chr(10), 1)[1]}\nnext\n".encode()
    assert kept(raw, whole=False) == "***-----END RSA PRIVATE KEY-----\nnext\n"


@given(
    st.lists(st.sampled_from(["word", SECRET, "\n", " ", "x" * 50, "\x1b[1m", "é"]), max_size=60),
    st.lists(st.integers(1, 40), min_size=1, max_size=10),
    st.integers(16, 200),
)
def test_no_secret_is_left_however_writes_and_the_kept_part_split_it(
    words: list[str], sizes: list[int], keep: int
) -> None:
    """Every upload during the run, and the last one."""
    data = "".join(words).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_text, "HEAD", 32)  # So that the beginning is often dropped.
        tail, shown, at = Tail(LogStream.STDOUT, keep, [SECRET]), [], 0
        while at < len(data):
            size = sizes[at % len(sizes)]
            tail.write(data[at : at + size])
            at += size
            shown += [text.text for text in (tail.text(ended=False),) if text]
            shown += [text.text for text in (tail.text(ended=False),) if text]
        last = tail.text(ended=True)
        shown += [last.text] if last else []
    parts = {SECRET[start : start + 5] for start in range(len(SECRET) - 4)}
    for text in shown:
        assert not any(part in text for part in parts), text
        assert len(text.encode()) <= keep + len(MASKED)


def test_an_unfinished_line_is_sent_when_it_stops_changing() -> None:
    tail = Tail(LogStream.STDOUT, 1000)
    tail.write(b"one\nPassword: ")
    shown = [tail.text(ended=False) for _ in range(3)]
    assert [each and each.text for each in shown] == ["one\n", "one\nPassword: ", None]
    assert tail.last_line == "Password:"


def test_a_text_that_was_not_delivered_is_returned_again() -> None:
    tail = Tail(LogStream.STDERR, 1000)
    tail.write(b"one\n")
    first = tail.text(ended=False)
    tail.unsent()
    assert tail.text(ended=False) == first


def test_the_end_of_much_output_is_kept_in_bounded_memory() -> None:
    tail = Tail(LogStream.STDOUT, 1000)
    line = b"x" * 99 + b"\n"
    for _ in range(20_000):
        tail.write(line)
    assert len(tail._data) <= 2 * tail._most
    text = tail.text(ended=True)
    assert text is not None
    assert (text.size, text.cut, text.text) == (2_000_000, True, (line * 9).decode())


def test_one_endless_line_is_cut_too() -> None:
    found = keep_end(b"y" * 200_000, 1000, (), whole=False, ended=True)
    assert (found.text, found.cut) == ("y" * 1000, True)


def test_the_last_line_is_short_and_not_blank() -> None:
    assert last_line("one\n  two\tthree \n\n \n") == "two three"
    assert last_line("\n \n") == ""
    assert len(last_line("z" * 5000)) == log_text.LONGEST_LINE


@given(st.text("ab\n", max_size=40), st.text("ab\n", max_size=40))
def test_text_that_was_added_to_a_log_is_found(before: str, more: str) -> None:
    assert added(before, before + more) == more


def test_text_that_was_added_is_found_after_the_beginning_was_dropped() -> None:
    before = "".join(f"{number}\n" for number in range(500, 1500))
    assert added(before, before[2000:] + "new\n") == "new\n"
    assert added(before, "all of it is new\n") is None
