"""Rules for names."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import BadValue
from headgate.core.values.names import check_name, check_note, check_reason, check_request_id, check_resource

CHECKS: dict[str, tuple[Callable[[object], str], int]] = {
    "client": (lambda value: check_name("client", value), 255),
    "resource": (check_resource, 2048),
    "reason": (check_reason, 1000),
    "request id": (check_request_id, 200),
}

every_check = pytest.mark.parametrize("what", CHECKS)


@every_check
@given(value=st.one_of(st.none(), st.integers(), st.floats(), st.binary(), st.booleans(), st.lists(st.text())))
def test_a_name_that_is_not_text_is_refused_with_its_type(what: str, value: object) -> None:
    with pytest.raises(BadValue, match=f"is {type(value).__name__}, not text") as error:
        CHECKS[what][0](value)
    assert error.value.what == what


@every_check
@pytest.mark.parametrize("value", ["", " ", "      "])
def test_an_empty_name_is_refused(what: str, value: str) -> None:
    with pytest.raises(BadValue, match="is empty; choose a name"):
        CHECKS[what][0](value)


@every_check
def test_the_longest_name_is_allowed_and_a_longer_one_is_not(what: str) -> None:
    check, most = CHECKS[what]
    for letter in ("x", "\u00e9", "\U0001f512"):
        assert check(letter * most) == letter * most
        with pytest.raises(BadValue, match=f"has {most + 1} characters; at most {most} are allowed"):
            check(letter * (most + 1))


@every_check
@given(value=st.text(min_size=1, max_size=60))
def test_printable_text_is_kept_exactly_and_other_text_is_refused(what: str, value: str) -> None:
    check, _ = CHECKS[what]
    if value.isprintable() and not value.isspace() and not (what == "client" and "/" in value):
        assert check(value) == value
        value.encode()  # It can be stored.
    else:
        with pytest.raises(BadValue):
            check(value)


@pytest.mark.parametrize("value", ["a\nb", "a\tb", "a\0b", "\x7f", "\x1b[0m", "a\u2028b", "\ud800", "\u200e", "\ufdd0"])
@every_check
def test_control_characters_are_refused(what: str, value: str) -> None:
    with pytest.raises(BadValue, match="has a control character or an unprintable character"):
        CHECKS[what][0](value)


def test_a_name_has_no_slash_but_a_resource_may() -> None:
    with pytest.raises(BadValue, match="has a slash"):
        check_name("client", "a/b")
    assert check_resource("a/b") == "a/b"


def test_a_note_may_be_empty() -> None:
    assert check_note("note", "") == check_note("note", None) == ""
    assert check_note("note", "why") == "why"
    unusable: list[object] = [7, b"why", "a\nb", "x" * 1001, 0, False, []]
    for wrong in unusable:
        with pytest.raises(BadValue, match="note"):
            check_note("note", wrong)
