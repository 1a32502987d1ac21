"""Sizes and free space: pure decisions over numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.ingest.reservations import FreeSpace, RoomRequest, decide
from headgate.ingest.steps.estimate import Estimate, estimate, estimated_priority, measured_priority, waits_longer

sizes = st.lists(st.none() | st.integers(-5, 10**15), max_size=20)
priorities = st.integers(0, 99)
spaces = st.integers(0, 3000)
LARGE = 1000


# ---------------------------------------------------------------- estimating


def test_sizes_are_summed() -> None:
    assert estimate([1, 2, 3]) == Estimate(6, 3, 0, 6)
    assert estimate([1, 2, 3]).message == "6 bytes in 3 files"
    assert estimate([1]).message == "1 byte in 1 file"


def test_one_unknown_size_makes_the_whole_unknown() -> None:
    found = estimate([1000, None, -1])
    assert found == Estimate(0, 3, 2, 1000)
    assert found.message == "the size of 2 of 3 files is unknown; the others have 1,000 bytes"


@given(sizes)
def test_estimating_never_fails_and_stays_within_the_range_of_a_store(given_sizes: list[int | None]) -> None:
    found = estimate(given_sizes)
    assert 0 <= found.space_needed < 2**63
    assert found.files == len(given_sizes)
    assert (found.unknown > 0) is any(size is None or size < 0 for size in given_sizes)


def test_an_implausible_sum_counts_as_unknown() -> None:
    assert estimate([2**62, 2**62]).space_needed == 0


@pytest.mark.parametrize(
    ("priority", "space", "expected"),
    [(5, 0, 10), (5, LARGE, 10), (5, LARGE - 1, 5), (5, 1, 5), (0, 0, 5), (94, 0, 99), (97, 0, 99), (99, 0, 99)],
)
def test_a_large_or_unknown_size_adds_five_up_to_ninety_nine(priority: int, space: int, expected: int) -> None:
    assert estimated_priority(priority, space, LARGE) == expected


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [(0, 5, -5), (0, 5000, 0), (5000, 5, -5), (5000, 6000, 0), (5, 5000, 5), (5, 6, 0), (0, 0, -5), (5, 0, 0)],
)
def test_the_measured_size_corrects_the_estimate(before: int, after: int, change: int) -> None:
    assert measured_priority(50, before, after, LARGE) == 50 + change


@given(priorities, spaces, spaces)
def test_a_priority_stays_within_its_bounds(priority: int, before: int, after: int) -> None:
    first = estimated_priority(priority, before, LARGE)
    second = measured_priority(first, before, after, LARGE)
    assert 0 <= first <= 99
    assert 0 <= second <= 99
    if first + 5 <= 99 and not waits_longer(before, LARGE):
        assert second == priority + (5 if after >= LARGE else 0)


# ---------------------------------------------------------------- provisioning


def passing(room: FreeSpace, *spaces_: int) -> list[bool]:
    return [decision.passes for decision in decide([RoomRequest(f"j{i}", s) for i, s in enumerate(spaces_)], room)]


def test_jobs_that_fit_are_provisioned_and_small_ones_pass_large_ones() -> None:
    assert passing(FreeSpace(1000, 200, 300), 501, 400, 100, 1) == [False, True, True, False]


def test_an_unknown_size_waits_below_the_threshold_only() -> None:
    assert passing(FreeSpace(500, 0, 500), 0) == [True]
    assert passing(FreeSpace(500, 1, 500), 0) == [False]
    # Jobs that passed before it in the same round count.
    assert passing(FreeSpace(1000, 0, 500), 500, 0, 1) == [True, True, False]


def test_a_refusal_says_why() -> None:
    room = FreeSpace(1000, 200, 900)
    unknown, large = decide([RoomRequest("a", 0), RoomRequest("b", 2000)], room)
    assert unknown.why == "its size is unknown, and the free space is 100 bytes below the threshold of 900"
    assert large.why == "it needs 2,000 bytes; 0 are available"
    assert decide([RoomRequest("a", 50)], FreeSpace(1000, 0, 900))[0].why == ""


@given(st.lists(spaces, max_size=12), st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000))
def test_no_round_assigns_more_space_than_is_free(needs: list[int], free: int, reserved: int, threshold: int) -> None:
    room = FreeSpace(free, reserved, threshold)
    decisions = decide([RoomRequest(str(place), need) for place, need in enumerate(needs)], room)
    assert [decision.job for decision in decisions] == [str(place) for place in range(len(needs))]
    promised = sum(need for need, decision in zip(needs, decisions, strict=True) if decision.passes)
    assert promised <= max(0, room.available)
    left = room.available - promised
    for need, decision in zip(needs, decisions, strict=True):
        if not decision.passes:
            assert decision.why
            assert need > left or (need == 0 and left < 0)
