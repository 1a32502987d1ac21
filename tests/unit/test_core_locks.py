"""The one function that decides, compared with the rule written again in its simplest form."""

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import BadValue, ForeignStore
from headgate.core.locks.decisions import decide, decide_upgrade, find_cycle, repeated_grant
from headgate.core.locks.model import (
    COMPATIBLE,
    Blocker,
    Lock,
    Mode,
    Request,
    Waiter,
    Want,
    lock_id,
    resource_digest,
    resource_key,
)
from headgate.core.locks.parsing import MODE_WORDS, check_lock_id, parse_lock_id, parse_mode

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
NUMBERS = itertools.count(1)

names = st.sampled_from(["ann", "ben", "cam"])
resources = st.sampled_from(["r1", "r2", "r3"])
modes = st.sampled_from(list(Mode))


def make_lock(client: str, resource: str, mode: Mode, **more: object) -> Lock:
    number = next(NUMBERS)
    fields: dict[str, object] = {"id": f"lock {number}", "token": number, "since": NOW, **more}
    return Lock(client=client, resource=resource, mode=mode, **fields)  # type: ignore[arg-type]


def make_waiter(client: str, resource: str, mode: Mode) -> Waiter:
    return Waiter(next(NUMBERS), resource, client, mode, NOW)


def ask(client: str, *wants: tuple[str, Mode], reentrant: bool = False, request_id: str = "mine") -> Request:
    return Request(request_id, client, tuple(Want(*want) for want in sorted(wants)), reentrant=reentrant)


locks = st.builds(make_lock, names, resources, modes)
waiters = st.builds(make_waiter, names, resources, modes)
wanted = st.dictionaries(resources, modes, min_size=1).map(lambda found: tuple(found.items()))


def test_the_table_has_every_cell() -> None:
    assert set(COMPATIBLE) == set(itertools.product(Mode, Mode))


@given(names, wanted, st.lists(locks), st.lists(waiters))
def test_a_request_is_granted_when_nothing_conflicts(
    client: str, wants: tuple[tuple[str, Mode], ...], held: list[Lock], earlier: list[Waiter]
) -> None:
    """Two requests conflict if they are for the same resource and not both read."""

    def conflicts(resource: str, mode: Mode) -> bool:
        return any(resource == name and Mode.EXCLUSIVE in (mode, want) for name, want in wants)

    decision = decide(ask(client, *wants), held, earlier)
    in_the_way = [lock.id for lock in held if conflicts(lock.resource, lock.mode)]
    before = [waiter for waiter in earlier if conflicts(waiter.resource, waiter.mode)]
    assert sorted(b.lock_id for b in decision.blockers if b.lock_id) == sorted(in_the_way)
    assert sum(b.kind == "waiter" for b in decision.blockers) == len(before)
    assert decision.granted is not bool(in_the_way or before)
    assert decision.entered == {}


@given(names, wanted, st.lists(locks), st.lists(waiters))
def test_blockers_are_in_the_order_of_the_resources(
    client: str, wants: tuple[tuple[str, Mode], ...], held: list[Lock], earlier: list[Waiter]
) -> None:
    found = [blocker.resource for blocker in decide(ask(client, *wants), held, earlier).blockers]
    assert found == sorted(found)


@given(names, resources, modes, st.lists(locks), st.lists(waiters))
def test_the_sole_holder_can_always_reenter(
    client: str, resource: str, mode: Mode, held: list[Lock], earlier: list[Waiter]
) -> None:
    own = make_lock(client, resource, Mode.EXCLUSIVE)
    elsewhere = [lock for lock in held if lock.resource != resource]
    decision = decide(ask(client, (resource, mode), reentrant=True), [*elsewhere, own], earlier)
    assert decision.granted
    assert decision.entered == {resource: own}


@given(modes)
def test_a_reader_among_readers_reenters_as_a_reader_only(mode: Mode) -> None:
    own, other = make_lock("ann", "r1", Mode.SHARED), make_lock("ben", "r1", Mode.SHARED)
    decision = decide(ask("ann", ("r1", mode), reentrant=True), [own, other])
    assert decision.granted is (mode is Mode.SHARED)
    if not decision.granted:
        assert [blocker.lock_id for blocker in decision.blockers] == [other.id]


def test_an_expired_lock_blocks_but_cannot_be_reentered() -> None:
    """It is kept only for its lock-delay."""
    dead = make_lock("ann", "r1", Mode.EXCLUSIVE, lease=5.0, expires_in=-1.0)
    assert not dead.alive
    decision = decide(ask("ann", ("r1", Mode.EXCLUSIVE), reentrant=True), [dead])
    assert [blocker.lock_id for blocker in decision.blockers] == [dead.id]


@given(st.lists(locks))
def test_only_the_sole_holder_can_upgrade(others: list[Lock]) -> None:
    mine = make_lock("ann", "r1", Mode.SHARED)
    blockers = decide_upgrade(mine, [mine, *others])
    assert sorted(str(b.lock_id) for b in blockers) == sorted(lock.id for lock in others)


# ------------------------------------------------------------------ repeated requests


def granted(request: Request, tag: str = "ab12") -> list[Lock]:
    return [
        make_lock(request.client, w.resource, w.mode, id=request.lock_id(tag, w.resource), request_id=request.id)
        for w in request.wants
    ]


def test_a_repeated_request_is_found_by_its_id() -> None:
    request = ask("ann", ("r1", Mode.SHARED), ("r2", Mode.EXCLUSIVE))
    held = granted(request)
    assert repeated_grant(request, "ab12", [make_lock("ben", "r1", Mode.SHARED), *held]) == tuple(held)
    assert repeated_grant(ask("ann", ("r1", Mode.SHARED), request_id="other"), "ab12", held) == ()
    assert repeated_grant(request, "ab12", []) == ()


@pytest.mark.parametrize(
    "other",
    [
        ask("ben", ("r1", Mode.SHARED)),
        ask("ann", ("r1", Mode.EXCLUSIVE)),
        ask("ann", ("r1", Mode.SHARED), ("r2", Mode.SHARED)),
    ],
    ids=["client", "mode", "resources"],
)
def test_the_same_id_for_another_request_is_an_error(other: Request) -> None:
    held = granted(ask("ann", ("r1", Mode.SHARED)))
    with pytest.raises(BadValue, match="request id 'mine' was used for another request"):
        repeated_grant(other, "ab12", held)


# ------------------------------------------------------------------ deadlocks


def test_a_deadlock_is_found_and_named_in_order() -> None:
    assert find_cycle("a", {"a": ["b"], "b": ["c"], "c": ["a"]}) == ("a", "b", "c", "a")
    assert find_cycle("a", {"a": ["a"]}) == ("a", "a")
    assert find_cycle("a", {"a": ["d", "b"], "d": ["e"], "b": ["a"]}) == ("a", "b", "a")


def test_a_deadlock_among_others_is_not_ours() -> None:
    assert find_cycle("a", {"a": ["b"], "b": ["c"], "c": ["b"]}) == ()
    assert find_cycle("a", {}) == ()
    assert find_cycle("a", {"b": ["a"]}) == ()


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef")), max_size=6))
def test_a_deadlock_is_found_exactly_when_there_is_one(waits_for: dict[str, list[str]]) -> None:
    reached, todo = set(), list(waits_for.get("a", []))
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += waits_for.get(name, [])
    ring = find_cycle("a", waits_for)
    assert bool(ring) is ("a" in reached)
    if ring:
        assert ring[0] == ring[-1] == "a"
        assert all(after in waits_for[before] for before, after in itertools.pairwise(ring))
        assert len(set(ring)) == len(ring) - 1


# ------------------------------------------------------------------ words, ids and sentences


@given(st.sampled_from(sorted(MODE_WORDS)), st.data())
def test_modes_are_read_in_any_case(word: str, data: st.DataObject) -> None:
    spelt = "".join(data.draw(st.sampled_from([letter.lower(), letter.upper()])) for letter in word)
    assert parse_mode(spelt) is MODE_WORDS[word]


@given(st.one_of(st.text(), st.integers(), st.none(), st.binary()))
def test_any_other_word_is_refused_as_a_mode(word: object) -> None:
    if isinstance(word, str) and word.lower() in MODE_WORDS:
        return
    with pytest.raises(BadValue, match="is not one of shared, read, exclusive, write"):
        parse_mode(word)


@given(st.text(), st.text(), st.text())
def test_ids_are_of_one_form_and_differ_with_what_they_name(one: str, other: str, request_id: str) -> None:
    first, second = (lock_id("ab12", name.encode(errors="replace").decode(), request_id) for name in (one, other))
    assert check_lock_id(first, "ab12", "here") == first == parse_lock_id(first)
    assert (first == second) is (one.encode(errors="replace") == other.encode(errors="replace"))
    assert resource_key(one.encode(errors="replace").decode()) == first.split("-")[1]


def test_an_id_of_another_store_is_foreign() -> None:
    theirs = lock_id("cd34", "r1", "mine")
    with pytest.raises(ForeignStore, match=r"another store \(cd34\); here is ab12"):
        check_lock_id(theirs, "ab12", "here")


@given(st.one_of(st.text(), st.binary(), st.none(), st.integers()))
def test_text_that_is_not_an_id_is_a_bad_value(text: object) -> None:
    with pytest.raises(BadValue, match="lock id"):
        check_lock_id(text, "ab12", "here")


def test_a_resources_key_is_exact() -> None:
    alike = ["core", "Core", "core ", " core", "co\u0301re", "c\u00f3re"]
    assert len({resource_digest(name) for name in alike}) == len({resource_key(name) for name in alike}) == 6
    assert len(resource_digest("core")) == 32


def test_a_blocker_is_a_sentence() -> None:
    held = Blocker("holder", "r1", "ann", Mode.EXCLUSIVE, NOW, "ab12-x", 41.7, "host pid 7", "nightly")
    assert held.sentence() == (
        "r1: ann (host pid 7) holds it exclusive since 2026-11-15 12:00:00 UTC, "
        "lease expires in 42 s unless renewed, note: nightly [lock ab12-x]"
    )
    assert "persistent" in Blocker("holder", "r1", "ann", Mode.SHARED, NOW, "ab12-x").sentence()
    waiting = Blocker("waiter", "r1", "ben", Mode.SHARED, NOW)
    assert waiting.sentence() == "r1: ben waits for shared since 2026-11-15 12:00:00 UTC and is ahead in the queue"
    assert Blocker("guard", "r1", "", Mode.SHARED, note="busy").sentence() == "r1: busy"
    assert "storage system" in Blocker("guard", "r1", "", Mode.SHARED).sentence()
