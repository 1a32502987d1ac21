"""headgate.ensembl: the Ensembl locker's names behave as in the original, on every store."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import headgate
from headgate.ensembl import Client, LockException, LockGone, NotFound, Resource, ResourceLock, ResourceLocker
from tests.conftest import STORES
from tests.contract.conftest import prepared, store_url
from tests.ensembl.original import utc

#: Fixtures: stores that are emptied between tests instead of being recreated.
__all__ = ["prepared", "store_url"]

URI = "mysql://host:3306/core_99"

#: The Ensembl locker's example. Changed: the import, the address, and its two slips (unlock(lock), print lock).
EXAMPLE = """
from headgate.ensembl import ResourceLocker, LockException, Client, Resource, ResourceLock
locker = ResourceLocker({url!r})
# obtain a read lock
my_lock = locker.lock('my_client_name', 'uri://my_resource', 'read')
# ...do some stuff
# release the lock
locker.unlock(my_lock)
# retrieve all active locks
for lock in locker.get_locks():
  print(lock)
"""


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    """The Ensembl locker knew URLs of stores, but none of services."""
    return str(request.param)


@pytest.fixture
def locker(store_url: str) -> Iterator[ResourceLocker]:
    with ResourceLocker(store_url) as locker:
        yield locker


def run_script(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_in_the_original_readme_runs(store_url: str) -> None:
    assert run_script(EXAMPLE.format(url=store_url)) == ""


def test_the_original_example_prints_the_locks_of_others(store_url: str) -> None:
    with ResourceLocker(store_url) as locker:
        other = locker.lock("somebody", "uri://my_resource", "read")
        assert run_script(EXAMPLE.format(url=store_url)) == f"{other}\n"


def test_a_lock_has_the_originals_attributes(locker: ResourceLocker) -> None:
    before = datetime.now(UTC).replace(tzinfo=None)
    lock = locker.lock("loader", URI, "write")
    assert isinstance(lock, ResourceLock)
    assert lock.resource_lock_id > 0
    assert lock.lock_type == "write"
    assert lock.client == locker.get_client("loader")
    assert lock.resource == locker.get_resource(URI)
    assert (lock.client_id, lock.resource_id) == (lock.client.client_id, lock.resource.resource_id)
    assert abs(lock.created - before) < timedelta(minutes=1)
    assert lock.to_dict() == {
        "resource_lock_id": lock.resource_lock_id,
        "client": {"client_id": lock.client_id, "name": "loader"},
        "resource": {"resource_id": lock.resource_id, "uri": URI},
        "lock_type": "write",
        "created": lock.created,
    }


def test_entities_print_readably() -> None:
    client, resource = Client(3, "loader"), Resource(4, URI)
    lock = ResourceLock(5, "read", utc(2020, 1, 1), client, resource)
    assert str(client) == "<Client(client_id=3, name='loader')>"
    assert str(resource) == f"<Resource(resource_id=4, uri='{URI}')>"
    assert str(lock) == f"<ResourceLock(resource_lock_id=5, lock_type='read', client='loader', resource='{URI}')>"


@pytest.mark.parametrize(
    ("held", "wanted", "granted"),
    [("read", "read", True), ("read", "write", False), ("write", "read", False), ("write", "write", False)],
)
@pytest.mark.parametrize("client", ["other", "same"])
def test_compatibility_of_lock_modes(store_url: str, held: str, wanted: str, granted: bool, client: str) -> None:
    """The same client is refused like any other: locks are not re-entrant."""
    with ResourceLocker(store_url) as locker:
        first = locker.lock("same", URI, held)
        if granted:
            second = locker.lock(client, URI, wanted)
            assert locker.get_locks() == [first, second]
            return
        with pytest.raises(LockException, match=rf"(?s){client} cannot acquire .* on {URI} now.*same .*holds it"):
            locker.lock(client, URI, wanted)
        assert locker.get_locks() == [first]
        locker.unlock(first)
        assert locker.lock(client, URI, wanted).lock_type == wanted


def test_a_lock_exception_carries_the_refusal(locker: ResourceLocker) -> None:
    held = locker.lock("loader", URI, "write")
    with pytest.raises(LockException) as caught:
        locker.lock("copier", URI, "read")
    assert isinstance(caught.value, headgate.Refused)
    assert isinstance(caught.value.refusal, headgate.LockRefused)
    (blocker,) = caught.value.blockers
    assert (blocker.client, blocker.resource, blocker.lock_id) == ("loader", URI, held.lock_id)


def test_locks_are_persistent(store_url: str) -> None:
    with ResourceLocker(store_url) as first:
        lock = first.lock("loader", URI, "write")
    with ResourceLocker(store_url) as second:
        assert second.get_locks() == [lock]


def test_a_refused_client_is_known(locker: ResourceLocker) -> None:
    locker.lock("loader", URI, "write")
    with pytest.raises(LockException):
        locker.lock("copier", URI, "read")
    assert [client.name for client in locker.get_clients()] == ["copier", "loader"]


@pytest.mark.parametrize("by", ["object", "number", "text"])
def test_unlock_releases_a_lock(locker: ResourceLocker, by: str) -> None:
    lock = locker.lock("loader", URI, "write")
    names: dict[str, ResourceLock | int | str]
    names = {"object": lock, "number": lock.resource_lock_id, "text": lock.lock_id}
    locker.unlock(names[by])
    assert locker.get_locks() == []
    assert locker.get_lock(lock.resource_lock_id) is None
    assert locker.get_lock(lock.lock_id) is None


def test_a_lock_that_was_read_back_can_be_released(locker: ResourceLocker) -> None:
    locker.lock("loader", URI, "write")
    (lock,) = locker.get_locks()
    locker.unlock(lock)
    assert locker.get_locks() == []


def test_a_stale_object_frees_nobody_elses_lock(locker: ResourceLocker) -> None:
    stale = locker.lock("loader", URI, "write")
    locker.unlock(stale)
    now = locker.lock("copier", URI, "write")
    with pytest.raises(LockGone, match="is not yours") as caught:
        locker.unlock(stale)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, headgate.LockLost)
    assert locker.get_locks() == [now]


def test_an_unknown_number_is_a_value_error(locker: ResourceLocker) -> None:
    held = locker.lock("loader", URI, "write")
    with pytest.raises(NotFound, match=r"there is no lock '17'.*get_locks") as caught:
        locker.unlock(17)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, headgate.UnknownName)
    assert locker.get_lock(17) is None
    assert locker.get_locks() == [held]


@pytest.mark.parametrize("wrong", [None, True, 1.5, "", "17"])
def test_a_malformed_id_is_a_value_error(locker: ResourceLocker, wrong: object) -> None:
    with pytest.raises(ValueError, match="lock"):
        locker.unlock(wrong)  # type: ignore[arg-type]


def test_get_locks_by_client_resource_and_type(locker: ResourceLocker) -> None:
    read = locker.lock("loader", URI, "read")
    write = locker.lock("loader", "file:///data", "write")
    other = locker.lock("copier", URI, "read")
    assert locker.get_locks() == [read, write, other]
    assert locker.get_locks(client_name="loader") == [read, write]
    assert locker.get_locks(resource_uri=URI) == [read, other]
    assert locker.get_locks(lock_type="write") == [write]
    assert locker.get_locks(client_name="loader", resource_uri=URI, lock_type="read") == [read]
    assert locker.get_locks(client_name="nobody") == []
    assert locker.get_locks(client_name="copier", lock_type="write") == []


def test_get_locks_by_the_originals_names(locker: ResourceLocker) -> None:
    read = locker.lock("loader", URI, "read")
    other = locker.lock("copier", URI, "read")
    assert locker.get_locks(client="loader") == [read]
    assert locker.get_locks(resource=URI) == [read, other]
    assert locker.get_locks(id=other.resource_lock_id) == [other]
    assert locker.get_locks(id=other.resource_lock_id, client="loader") == []
    assert locker.get_locks(client="loader", client_name="copier") == []


@pytest.mark.parametrize("word", ["foo", "", "READ;", "shared lock"])
def test_get_locks_of_an_unknown_type_returns_none(locker: ResourceLocker, word: str) -> None:
    locker.lock("loader", URI, "read")
    assert locker.get_locks(lock_type=word) == []


@pytest.mark.parametrize("query", ["charset=utf8", "charset=latin1&use_unicode=0"])
def test_a_url_with_the_original_drivers_options_opens_the_same_store(store_url: str, query: str) -> None:
    url = f"{store_url}{'&' if '?' in store_url else '?'}{query}"
    with ResourceLocker(url) as locker, ResourceLocker(store_url) as plain:
        lock = locker.lock("Jörg", "file:///größe", "write")
        assert plain.get_locks() == [lock]
        assert locker.url == url


def test_get_lock_returns_a_lock_by_its_id(locker: ResourceLocker) -> None:
    lock = locker.lock("loader", URI, "read")
    assert locker.get_lock(lock.resource_lock_id) == lock
    assert locker.get_lock(lock.lock_id) == lock


def test_missing_clients_are_created_and_can_be_deleted(locker: ResourceLocker) -> None:
    client = locker.get_client("loader")
    assert locker.get_client("loader") == client
    assert locker.get_client_by_id(client.client_id) == client
    assert locker.get_client_by_id(1) is None
    assert locker.get_clients() == [client]
    locker.delete_client("loader")
    assert locker.get_clients() == []
    for name in ("a", "b", "c"):
        locker.get_client(name)
    locker.delete_client(locker.get_client("a"))
    locker.delete_client(locker.get_client("b").client_id)
    assert [each.name for each in locker.get_clients()] == ["c"]


def test_missing_resources_are_created_and_can_be_deleted(locker: ResourceLocker) -> None:
    resource = locker.get_resource(URI)
    assert locker.get_resource(URI) == resource
    assert locker.get_resource_by_id(resource.resource_id) == resource
    assert locker.get_resource_by_id(1) is None
    assert locker.get_resources() == [resource]
    locker.delete_resource(URI)
    assert locker.get_resources() == []
    for uri in ("a:1", "b:1", "c:1"):
        locker.get_resource(uri)
    locker.delete_resource(locker.get_resource("a:1"))
    locker.delete_resource(locker.get_resource("b:1").resource_id)
    assert [each.uri for each in locker.get_resources()] == ["c:1"]


def test_clients_and_resources_in_use_cannot_be_deleted(locker: ResourceLocker) -> None:
    lock = locker.lock("loader", URI, "read")
    with pytest.raises(LockException, match="loader"):
        locker.delete_client(lock.client)
    with pytest.raises(LockException, match=URI):
        locker.delete_resource(lock.resource)
    locker.unlock(lock)
    locker.delete_client(lock.client)
    locker.delete_resource(lock.resource)
    assert (locker.get_clients(), locker.get_resources()) == ([], [])


def test_deleting_what_is_unknown_is_a_value_error(locker: ResourceLocker) -> None:
    for wrong in ("nobody", 17):
        with pytest.raises(NotFound, match="there is no client"):
            locker.delete_client(wrong)
        with pytest.raises(NotFound, match="there is no resource"):
            locker.delete_resource(wrong)


@pytest.mark.parametrize(
    ("client", "uri", "lock_type"),
    [("loader", URI, "append"), ("", URI, "read"), ("loader", "", "read"), ("a/b", URI, "read"), ("a", "\n", "read")],
)
def test_bad_input_is_a_value_error_and_writes_nothing(
    locker: ResourceLocker, client: str, uri: str, lock_type: str
) -> None:
    with pytest.raises(ValueError, match=r"client|resource|mode") as caught:
        locker.lock(client, uri, lock_type)
    assert isinstance(caught.value, headgate.BadValue)
    assert (locker.get_clients(), locker.get_resources(), locker.get_locks()) == ([], [], [])


def test_a_url_of_no_known_kind_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="is not a supported URL"):
        ResourceLocker("ldap://host/locks")


def test_the_given_url_overrides_the_settings(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    monkeypatch.setenv("HEADGATE_COORDINATION_URL", f"sqlite:///{folder / 'other.db'}")
    with ResourceLocker(f"sqlite:///{folder / 'this.db'}", timeout=60) as locker:
        locker.lock("loader", URI, "read")
    assert (folder / "this.db").exists()
    assert not (folder / "other.db").exists()


def test_running_chunks_are_listed_and_cannot_be_unlocked(sql_url: str) -> None:
    """A running chunk is a lock like any other to other clients; its worker ends it."""
    with headgate.connect(sql_url) as gate, ResourceLocker(sql_url) as locker:
        for name in ("raw", "tidy"):
            gate.ledger.define_dataset(name)
        gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
        gate.ledger.publish("raw", "1")
        claim = gate.ledger.claim("clean", "1", worker="worker 7")
        found = {lock.resource.uri: lock for lock in locker.get_locks()}
        assert {uri: lock.lock_type for uri, lock in found.items()} == {"data:raw/1": "read", "data:tidy/1": "write"}
        assert {lock.client.name for lock in found.values()} == {"worker 7"}
        assert locker.get_locks(client_name="worker 7", lock_type="write") == [found["data:tidy/1"]]
        for lock in found.values():
            assert locker.get_lock(lock.resource_lock_id) == lock == locker.get_lock(lock.lock_id)
            with pytest.raises(ValueError, match="job clean runs on it"):
                locker.unlock(lock)
        with pytest.raises(LockException):
            locker.lock("me", "data:tidy/1", "read")
        gate.ledger.success(claim)
        assert locker.get_locks() == []
        locker.unlock(locker.lock("me", "data:tidy/1", "write"))
