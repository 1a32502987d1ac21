"""The content of nodes is read exactly as written, and a foreign node hides no other."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue, ForeignStore, Mode
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Request, Want
from headgate.stores.zookeeper.ensemble.asking import join, make
from headgate.stores.zookeeper.history import folders as history_folders
from headgate.stores.zookeeper.locks import refusals
from headgate.stores.zookeeper.locks.records import (
    Holder,
    State,
    WaitNode,
    decode_state,
    place_name,
    read_message,
    read_place,
    sort_places,
    write_message,
)
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from headgate.stores.zookeeper.tree import Tree, client_name, name_of, parent
from tests.contract.steps import EXCLUSIVE, SHARED, history_of, request_for

TEXT = st.text(min_size=1, max_size=40)
HOLDERS = st.builds(
    Holder,
    id=st.just("ab12-aaaaaaaaaaaaaaaa-bbbbbbbbbbbb"),
    client=TEXT,
    mode=st.sampled_from(Mode),
    token=st.integers(1, 2**62),
    node=TEXT,
    lease=st.floats(0.001, 1e6),
    count=st.integers(1, 99),
    owner=TEXT,
    note=TEXT,
    request_id=TEXT,
    delay=st.floats(0, 100),
    dead=st.booleans(),
    since=st.none() | st.integers(0, 2**60),
)
STATES = st.builds(
    State, TEXT, st.integers(0, 2**62), st.lists(HOLDERS, max_size=3).map(tuple), st.booleans(), st.booleans()
)


@given(STATES)
def test_a_state_is_read_as_it_was_written(state: State) -> None:
    assert decode_state(state.encode(), "/x") == state


@given(STATES, TEXT, TEXT, TEXT, TEXT)
def test_a_message_is_read_as_it_was_written(state: State, client: str, owner: str, request: str, note: str) -> None:
    place = some_place(Request(request, client, (Want("r", SHARED),), 5.0, 1.5, owner=owner, note=note), 5.0)
    message = read_message(write_message("mark", 7, state.encode(), [place]), "/x")
    assert message
    assert (message.mark, message.version, message.state) == ("mark", 7, state)
    assert [read_place(name) for name in message.names] == [place]


#: Short enough that a name has room for four of them, however they are quoted.
SHORT_TEXT = st.text(min_size=1, max_size=15)


@given(SHORT_TEXT, SHORT_TEXT, SHORT_TEXT, SHORT_TEXT, st.sampled_from(Mode))
def test_a_queue_position_is_stored_in_its_name(
    client: str, owner: str, request_id: str, note: str, mode: Mode
) -> None:
    request = Request(request_id, client, (Want("r", mode),), 5.0, 1.5, owner=owner, note=note)
    place = some_place(request, 5.0)
    assert "/" not in place.name
    assert place.is_of(request)
    assert (place.client, place.request_id, place.mode, place.note) == (client, request_id, mode, note)
    assert (place.delay, place.waiter("r").owner, place.principal) == (1.5, owner, request.principal)
    assert (place.session, place.lease, place.mark) == (42, 5.0, "mark")


def test_persistent_grants_long_notes_and_collections_are_not_handed_over() -> None:
    request = Request("id", "c", (Want("r", SHARED),), note="n")
    assert some_place(request, None).lease is None
    assert some_place(dataclasses.replace(request, note="n" * 999, lease=5.0), 5.0).lease is None
    two = Request("id", "c", (Want("r", SHARED), Want("s", SHARED)), 5.0)
    assert some_place(two, 5.0).lease is None


def some_place(request: Request, lease: float | None) -> WaitNode:
    place = read_place(place_name(request, request.wants[0].mode, "mark", 42, lease) + "0000000007")
    assert place
    return place


def test_queue_positions_are_in_order_when_the_numbers_wrap_around() -> None:
    """ZooKeeper counts all children that a node ever had in 32 bits."""
    name = place_name(Request("id", "c", (Want("r", SHARED),)), SHARED, "mark", 42, None)
    numbers = ["2147483646", "2147483647", "-2147483648", "-2147483647"]
    places = [read_place(name + number) for number in reversed(numbers)]
    assert [place.name for place in sort_places([p for p in places if p])] == [name + number for number in numbers]


@pytest.mark.parametrize("name", [".", "..", "a b", "Zoë", "100%", "-", "x:y"])
def test_any_client_name_has_a_node(name: str) -> None:
    assert client_name(name_of(Tree("/x").client(name))) == name


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"hello", b"[]", b'{"uri": "r"}', b'{"uri":"r","token":1,"holders":[{}]}']
)
def test_a_node_that_holds_something_else_is_named_and_hides_no_other(
    store: ZookeeperLocks, raw: Any, data: bytes
) -> None:
    good, bad = request_for("a", ("good", EXCLUSIVE)), request_for("a", ("bad", EXCLUSIVE))
    (lock,) = store.acquire(bad)
    store.acquire(good)
    path = store._tree.resource("bad")
    raw.set(path, data)
    for act in (
        lambda: store.acquire(request_for("b", ("bad", SHARED))),
        lambda: store.release(lock.id, lock.token),
        lambda: store.check(lock.id, lock.token),
        lambda: store.list(LockFilter(resource="bad")),
    ):
        with pytest.raises(ForeignStore, match=path):
            act()
    assert [each.resource for each in store.list(LockFilter())] == ["good"]
    assert [resource for resource, _, _ in store.summary()] == ["good"]
    assert list(store.resources()) == ["good"]
    assert store.expire() == 0


def test_a_collection_is_acquired_whole_or_not_at_all(store: ZookeeperLocks, raw: Any) -> None:
    """One multi: if a single node has changed, all others stay as they were."""
    wants = [(f"r{number}", EXCLUSIVE) for number in range(20)]
    store.acquire(request_for("b", ("r13", SHARED)))
    before = {
        resource: raw.get(store._tree.resource(resource))
        for resource, _ in wants
        if raw.exists(store._tree.resource(resource))
    }
    with pytest.raises(Exception, match="r13"):
        store.acquire(request_for("a", *wants))
    for resource, content in before.items():
        assert raw.get(store._tree.resource(resource))[0] == content[0]
    assert [each.resource for each in store.list(LockFilter())] == ["r13"]


# ------------------------------------------------------------------ history


def test_the_history_continues_in_a_new_folder_when_one_is_full(
    store: ZookeeperLocks, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_folders, "FOLDER_SIZE", 5)
    for number in range(20):
        (lock,) = store.acquire(request_for(f"c{number}", ("r", EXCLUSIVE)))
        store.release(lock.id, lock.token)
    folders = sorted(raw.get_children(store._tree.history))
    assert len(folders) > 5
    assert all(raw.get(f"{store._tree.history}/{name}")[0] == b"closed" for name in folders[:-1])
    assert max(len(raw.get_children(f"{store._tree.history}/{name}")) for name in folders) <= 7
    entries = history_of(store)
    assert [entry.event for entry in reversed(entries)] == ["grant", "release"] * 20
    assert [entry.id for entry in entries] == sorted((entry.id for entry in entries), reverse=True)
    assert len({entry.id for entry in entries}) == 40
    pages = list(history_of(store, limit=7))
    while more := history_of(store, limit=7, before=pages[-1].place):
        pages += more
    assert pages == list(entries)


def test_a_process_that_slept_continues_in_the_newest_folder(
    store: ZookeeperLocks, open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_folders, "FOLDER_SIZE", 5)
    sleeper = open_store()
    sleeper.acquire(request_for("early", ("s", SHARED)))
    for _ in range(10):
        (lock,) = store.acquire(request_for("busy", ("r", EXCLUSIVE)))
        store.release(lock.id, lock.token)
    sleeper.acquire(request_for("late", ("s", SHARED)))
    assert history_of(store, limit=1)[0].client == "late"


def test_refusals_of_one_minute_are_one_entry_and_the_next_minute_begins_another(
    store: ZookeeperLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.acquire(request_for("a", ("r", EXCLUSIVE)))
    for _ in range(4):
        refuse(store)
    (entry,) = history_of(store, event="refuse")
    assert entry.count == 4
    monkeypatch.setattr(refusals, "MINUTE", 1)  # Every millisecond counts as a minute.
    refuse(store)
    monkeypatch.undo()
    refuse(store)
    assert [entry.count for entry in history_of(store, event="refuse")] == [2, 4]


def test_a_client_that_was_cut_off_while_it_was_refused_is_refused_again(store: ZookeeperLocks) -> None:
    """It created the node of its refusals, and died before it wrote the entry."""
    node = store._tree.refusal("r", "b")
    store._sessions.base.ask(make(parent(node)), make(node))
    store.acquire(request_for("a", ("r", EXCLUSIVE)))
    refuse(store)
    refuse(store)
    assert [entry.count for entry in history_of(store, event="refuse")] == [2]


def test_a_waiter_is_listed_as_soon_as_its_position_counts(store: ZookeeperLocks) -> None:
    """Readers that know the resource are granted until it is marked: a listed waiter is not passed by them."""
    store.acquire(request_for("a", ("r", SHARED)))
    name = place_name(request_for("w", ("r", EXCLUSIVE)), EXCLUSIVE, "0123456789", store._sessions.base.id, None)
    store._sessions.base.change(join(f"{store._tree.resource('r')}/{name}"))
    store.acquire(request_for("b", ("r", SHARED)))
    assert store.waiters() == []


def refuse(store: ZookeeperLocks) -> None:
    with pytest.raises(Exception, match="cannot acquire"):
        store.acquire(request_for("b", ("r", SHARED)))


def test_a_collection_that_is_too_large_for_one_step_is_refused_before_it_is_sent(store: ZookeeperLocks) -> None:
    wants = [(f"{number:05d} " + "x" * 1500, EXCLUSIVE) for number in range(400)]
    with pytest.raises(BadValue, match="too large for ZooKeeper"):
        store.acquire(request_for("a", *wants))
    assert store.list(LockFilter()) == []
