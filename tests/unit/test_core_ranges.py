"""Ranges of data ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.core.ledger.ranges import expand
from headgate.core.ledger.selection import ChunkSelection


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("2024-02-28..2024-03-01", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("9..11", ["9", "10", "11"]),
        ("008..010", ["008", "009", "010"]),
        ("7..7", ["7"]),
        ("plain", ["plain"]),
        ("2023-11..2024-02", ["2023-11", "2023-12", "2024-01", "2024-02"]),
    ],
)
def test_days_months_and_numbers_are_ranges(word: str, expected: list[str]) -> None:
    assert list(expand(word)) == expected
    assert list(expand(word, exact=True)) == [word]


@pytest.mark.parametrize(
    "word",
    ["a..b", "1..x", "..", "1...3", "2024-01..2024-02-01", "2024-01..2024-13", "2024-02..2024-01", "\u0661..\u0663"],
)
def test_a_word_with_dots_that_is_not_a_range_is_refused(word: str) -> None:
    with pytest.raises(BadValue, match="range"):
        expand(word)


@pytest.mark.parametrize("word", ["2..1", "2024-03-01..2024-02-01", "2024-02-30..2024-03-01", "1..9999999999"])
def test_an_impossible_range_is_refused(word: str) -> None:
    with pytest.raises(BadValue, match="range"):
        expand(word)


@pytest.mark.parametrize("word", ["2024-02-27..2024-03-02", "2025-11..2026-02", "8..12", "008..012", "one"])
def test_a_range_has_its_members_and_nothing_else(word: str) -> None:
    members = expand(word)
    low, high = members.bounds
    for dataid in members:
        assert members.has(dataid)
        assert low <= dataid
        assert high is None or dataid <= high
    others = ("2024-02-30", "2024-03-03", "2025-13", "7", "13", "08", "0008", "1", "9x", "two", "2024-03", "²")
    assert [each for each in others if members.has(each) and each not in set(members)] == []


@given(st.text("0123456789-*?[]ab", min_size=1, max_size=8), st.text("0123456789-ab", min_size=1, max_size=8))
def test_a_selection_contains_nothing_beyond_its_bounds(word: str, dataid: str) -> None:
    selection = ChunkSelection((word,))
    low, high = selection.bounds
    if selection.names(dataid):
        assert low <= dataid
        assert high is None or dataid <= high
