"""The commands of ingest on a machine without store or storage: a service carries them out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from headgate.core.errors import BadValue
from headgate.core.queue.model import Batch
from headgate.http.port.server import Server
from headgate.http.service import Service
from tests.cli.commands import Headgate, Result
from tests.ingest.site import Site, ended, running
from tests.ingest.test_ingest_commands import damage, good


class Elsewhere(Headgate):
    """The command, with only the address of a service and a token."""

    def __init__(self, server: Server, token: str, folder: Path) -> None:
        super().__init__("", folder)
        self._told = {"HEADGATE_SERVER": server.url, "HEADGATE_API_TOKEN": token}

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**self._told, **more)


@pytest.fixture
def gate(there: Site) -> Iterator[Gate]:
    with there.gate() as found:
        yield found


@pytest.fixture
def elsewhere(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    server = Server(Service(gate), "127.0.0.1:0")
    server.start()
    yield Elsewhere(server, gate.tokens.new("elsewhere", ["admin"]).token, tmp_path_factory.mktemp("elsewhere"))
    server.stop()


def test_a_file_is_submitted_watched_and_verified_through_a_service(
    gate: Gate, elsewhere: Elsewhere, there: Site
) -> None:
    there.profile()
    assert [each["name"] for each in good(elsewhere("ingest", "profiles", "--json")).json["items"]] == ["demo"]
    (elsewhere.folder / "my map.tif").write_bytes(b"a map" * 1000)
    how = ("--profile", "demo", "--submitter", "me", "--type", "file", "local_id=m1", "--json")
    batch = good(elsewhere("ingest", "submit", "my map.tif", *how)).json["id"]
    with running(gate):
        assert ended(gate, gate.queue.batch(batch)).state == "completed"
    (found,) = good(elsewhere("ingest", "objects", "--local-id", "m1", "--json")).json["items"]
    shown = good(elsewhere("ingest", "object", found["ark"], "--json")).json
    assert (shown["owner"], shown["versions"][0]["number"]) == (found["owner"], 1)
    assert verified(elsewhere("ingest", "verify", "--json")) == (0, 0)
    damage(there.folder / "storage")
    assert verified(elsewhere("ingest", "verify", found["ark"], "--json")) == (1, 1)
    assert [each.name for each in elsewhere.folder.iterdir()] == ["my map.tif"], "it made no store of its own"


def verified(told: Result) -> tuple[int, int]:
    """The exit code, and the number of reported problems."""
    assert told.json["bytes"] > 0
    return told.code, len(told.json["problems"])


def test_mistakes_in_profiles_are_reported_as_they_are_at_the_service(elsewhere: Elsewhere, there: Site) -> None:
    there.profile("maps", callback_failur="warn")
    told = elsewhere("ingest", "profiles")
    assert told.code == 2
    assert "did you mean 'callback_failure'" in told.err


def test_a_file_that_another_principal_submitted_cannot_be_ingested(
    gate: Gate, elsewhere: Elsewhere, there: Site
) -> None:
    """Readers see its address; that alone must not allow ingesting it into their own collection."""
    there.profile()
    url = str(elsewhere.environment()["HEADGATE_SERVER"])
    scopes = ["queue:submit", "queue:work", "read"]
    ann, eve = gate.tokens.new("ann", scopes), gate.tokens.new("eve", scopes)
    own = gate.tokens.new("ann2", scopes, principal=ann.principal)

    def submit(token: str, payload: str) -> Batch:
        with headgate.connect(url, token=token) as remote:
            return remote.queue.submit("demo", "me", payload, type="file")

    (elsewhere.folder / "letter.txt").write_text("private")
    with headgate.connect(url, token=ann.token) as remote:
        payload = remote.hand_in(elsewhere.folder / "letter.txt")
    local = gate.hand_in(elsewhere.folder / "letter.txt")
    for address in (payload, local, payload.replace("file:///", "FILE:///"), payload.replace("uploads", "upl%6fads")):
        with pytest.raises(BadValue, match="was not uploaded by"):
            submit(eve.token, address)
    assert gate.queue.batches() == []
    assert submit(ann.token, payload).state == submit(own.token, payload).state == "pending"
    assert submit(gate.tokens.new("chief", ["admin"]).token, local).state == "pending"
