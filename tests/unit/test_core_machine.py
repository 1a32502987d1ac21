"""A table is checked when it is created; everything else is derived from its rows."""

import pytest

from headgate.core.errors import TransitionRefused
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import LOCK, MACHINES


def row(source: str, event: str, target: str, when: str = "", also: Also = Also.NOTHING) -> Transition:
    return Transition(source, event, target, By.CLIENT, also, f"{source} becomes {target}.", when)


def table(*rows: Transition, start: str = "new") -> Machine:
    return Machine("thing", start, rows)


def test_two_rows_for_one_event_in_one_state_are_refused() -> None:
    with pytest.raises(ValueError, match=r"thing: two rows for \('new', 'go', ''\)"):
        table(row("new", "go", "here"), row("new", "go", "there"))


def test_each_of_several_targets_needs_a_condition() -> None:
    with pytest.raises(ValueError, match="new go has several targets, and not each says when"):
        table(row("new", "go", "here"), row("new", "go", "there", when="it rains"))
    table(row("new", "go", "here", when="it is dry"), row("new", "go", "there", when="it rains"))


def test_the_same_condition_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two rows"):
        table(row("new", "go", "here", when="it rains"), row("new", "go", "there", when="it rains"))


def test_a_state_that_nothing_leads_to_is_refused() -> None:
    with pytest.raises(ValueError, match="no row leads to island, shore"):
        table(row("new", "go", "here"), row("island", "swim", "shore"))


def test_an_unreachable_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="no row leads to"):
        table(row("new", "go", "here"), row("a", "on", "b"), row("b", "on", "a"))


def test_states_events_and_ends_are_in_reading_order() -> None:
    machine = table(
        row("new", "go", "here", also=Also.RECORD_HISTORY),
        row("here", "stay", "here"),
        row("here", "leave", "gone", also=Also.RECORD_HISTORY),
    )
    assert machine.states == ("new", "here", "gone")
    assert machine.events == ("go", "stay", "leave")
    assert machine.ends == ("gone",)
    assert machine.told == ("go", "leave")
    assert machine.allowed("here") == ("stay", "leave")
    assert machine.allowed("gone") == ()


def test_an_impossible_event_lists_the_possible_ones() -> None:
    machine = table(row("new", "go", "here"), row("here", "leave", "gone"), row("here", "stay", "here"))
    with pytest.raises(TransitionRefused) as refusal:
        machine.find("here", "go")
    assert str(refusal.value) == "thing is here: go is not possible. Possible from here: leave, stay"
    assert (refusal.value.machine, refusal.value.state, refusal.value.event) == ("thing", "here", "go")
    assert refusal.value.allowed == ("leave", "stay")
    with pytest.raises(TransitionRefused, match="Possible from here: none"):
        machine.find("gone", "go")


def test_a_row_applies_by_its_condition_or_always_without_one() -> None:
    machine = table(
        row("new", "go", "here", when="far"), row("new", "go", "gone", when="near"), row("here", "go", "new")
    )
    assert machine.choose("new", "go", lambda found: found.when == "near") == machine.rows[1]
    assert machine.choose("new", "go", lambda found: found.when == "never") is None
    assert machine.choose("here", "go", lambda _: False) == machine.rows[2]
    assert machine.choose("gone", "go", lambda _: True) is None


def test_effects_are_readable_words() -> None:
    assert (Also.NEW_TOKEN | Also.JOIN_QUEUE).words() == "new token, join queue"
    assert Also.NOTHING.words() == "nothing"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_each_row_is_a_sentence_and_each_end_an_end(machine: Machine) -> None:
    assert all(each.meaning.endswith(".") and each.meaning[0].isupper() for each in machine.rows)
    # A chunk has no end: a forgotten chunk may be made again.
    assert bool(machine.ends) is (machine.start not in {each.target for each in machine.rows})


def test_a_lock_that_frees_its_resource_is_reported() -> None:
    """A holder that loses or releases a lock always leaves an entry."""
    freeing = [each for each in LOCK.rows if Also.FREE_RESOURCE in each.also]
    assert all(Also.RECORD_HISTORY in each.also for each in freeing)
    assert {each.target for each in freeing} == {"released", "expired", "broken"}


def test_every_new_grant_has_a_new_token() -> None:
    for each in LOCK.rows:
        becomes_held = each.target in ("shared", "exclusive") and each.source not in ("shared", "exclusive")
        assert not becomes_held or Also.NEW_TOKEN in each.also
    assert Also.NEW_TOKEN in LOCK.find("shared", "upgrade")[0].also


def test_every_queue_position_ends() -> None:
    for each in LOCK.rows:
        assert (Also.LEAVE_QUEUE in each.also) is (each.source == "waiting")
        assert (Also.JOIN_QUEUE in each.also) is (each.target == "waiting")
