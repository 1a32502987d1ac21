"""Ranges of data ids."""

import pytest

from headgate import BadValue
from headgate.core.ledger.ranges import expand


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
def test_a_word_with_dots_that_is_no_range_is_refused(word: str) -> None:
    with pytest.raises(BadValue, match="range"):
        expand(word)


@pytest.mark.parametrize("word", ["2..1", "2024-03-01..2024-02-01", "2024-02-30..2024-03-01", "1..9999999999"])
def test_a_range_that_cannot_be_is_refused(word: str) -> None:
    with pytest.raises(BadValue, match="range"):
        expand(word)
