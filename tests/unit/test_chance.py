"""Random numbers that leave the shared generator alone."""

import random

from headgate import chance


def test_numbers_stay_between_their_bounds() -> None:
    assert all(0 <= chance.fraction() < 1 for _ in range(200))
    assert all(2 <= chance.between(2, 3) <= 3 for _ in range(200))
    assert {chance.below(3) for _ in range(200)} == {0, 1, 2}


def test_the_shared_generator_is_left_alone() -> None:
    before = random.getstate()
    chance.fraction()
    chance.between(0, 1)
    chance.below(7)
    assert random.getstate() == before
