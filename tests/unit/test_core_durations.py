"""Durations, formatted for people."""

import pytest

from headgate.core.values.durations import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (0, "0 s"),
        (0.02, "0 s"),
        (0.5, "0.5 s"),
        (0.97, "1 s"),
        (45.4, "45 s"),
        (59.7, "1 min"),
        (119, "1 min 59 s"),
        (180, "3 min"),
        (3587, "59 min 47 s"),
        (3599.6, "1 h"),
        (7300, "2 h 2 min"),
        (86_399, "1 d"),
        (90_000, "1 d 1 h"),
        (90 * 86_400 - 2, "90 d"),
    ],
)
def test_durations_have_two_units_at_most_and_are_rounded_to_the_smaller(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
