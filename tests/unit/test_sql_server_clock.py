"""How a process notices that a database server's clock was set, and by how much tokens are raised."""

import pytest

from headgate.stores.sql.database.clock import TOLERANCE, ClockJump, ServerClock
from headgate.stores.sql.server.epochs import SAFE, SMALL_STEP, STEP, step_beyond

SECOND = 1_000_000
HOUR = 3600 * SECOND


def heard(clock: ServerClock, server: int, local: int, trip: int = 1000) -> ClockJump | None:
    """The server returned this in the middle of a trip."""
    return clock.observe(server, local - trip // 2, local + trip // 2)


@pytest.mark.parametrize("passed", [0, SECOND, 24 * HOUR])
def test_clocks_in_step_are_trusted(passed: int) -> None:
    clock = ServerClock()
    assert heard(clock, 10 * HOUR, 0) is None
    assert heard(clock, 10 * HOUR + passed, passed) is None
    assert heard(clock, 10 * HOUR + 2 * passed - TOLERANCE // 2, 2 * passed) is None


@pytest.mark.parametrize("jump", [HOUR, 2 * SECOND, -HOUR, -2 * SECOND])
def test_a_jump_is_remembered_until_it_is_handled(jump: int) -> None:
    clock = ServerClock()
    heard(clock, 10 * HOUR, 0)
    found = heard(clock, 10 * HOUR + SECOND + jump, SECOND)
    assert found is not None
    assert found.heard == 10 * HOUR
    assert abs(found.ahead - jump) <= 2000
    assert heard(clock, 10 * HOUR + 2 * SECOND + jump, 2 * SECOND) == found
    clock.settle()
    assert heard(clock, 10 * HOUR + 3 * SECOND + jump, 3 * SECOND) is None


def test_a_slow_answer_is_not_a_jump() -> None:
    clock = ServerClock()
    clock.observe(0, 0, 1000)
    assert clock.observe(HOUR, 2000, HOUR + 2000) is None
    assert clock.observe(HOUR + 5000, HOUR + 3000, 2 * HOUR) is None


def test_another_server_has_another_clock() -> None:
    clock = ServerClock()
    heard(clock, 0, 0)
    clock.forget()
    assert heard(clock, HOUR, SECOND) is None


def test_tokens_stay_below_the_limit_of_exact_integers_in_javascript() -> None:
    given, failovers = 5, 0
    while step_beyond(given) == STEP:
        given, failovers = given + STEP, failovers + 1
    assert failovers == 8190
    assert given + 1_000_000 * SMALL_STEP < SAFE
