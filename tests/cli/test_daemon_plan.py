"""Which daemons a command line asks for."""

import click
import pytest

from headgate import UnknownName
from headgate.cli.service.daemon_plan import DaemonPlan, Given, plan
from headgate.daemons.names import CONSUMERS, ROUNDS


def planned(*names: str, without: tuple[str, ...] = ()) -> DaemonPlan:
    return plan(Given(names, (), (), without), once=False, ingest=True)


def test_single_daemons_can_be_left_out() -> None:
    found = planned(without=("job-recording", "messenger"))
    assert set(found.own) == set(CONSUMERS) - {"job-recording"}
    assert list(found.rounds) == [name for name in ROUNDS if name != "messenger"]


def test_a_consumer_of_jobs_can_be_named_by_its_state() -> None:
    assert planned(without=("recording",)).own == planned(without=("job-recording",)).own


def test_a_daemon_that_is_left_out_exists_and_is_not_named_too() -> None:
    with pytest.raises(UnknownName, match="job-recording"):
        planned(without=("job-recordin",))
    with pytest.raises(click.UsageError, match="job-notify is named, and left out"):
        planned("job-notify", without=("notify",))
