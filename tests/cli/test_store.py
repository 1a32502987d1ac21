"""store: showing the server of a store, and raising its tokens."""

from tests.cli.commands import Headgate

DB = "mysql://db1/core"


def test_raising_tokens_ends_leases_and_renews_the_tokens_of_persistent_locks(headgate: Headgate) -> None:
    leased, kept = headgate.acquire("r:1", "--lease", "600s"), headgate.acquire("r:2")
    headgate("store", "raise-tokens", "--reason", "an old disk image", "--yes")
    held = {lock["resource"]: lock for lock in headgate("lock", "list", "--json").json["items"]}
    assert list(held) == ["r:2"]
    assert held["r:2"]["token"] > 2**40
    for lock in (leased, kept):
        assert headgate("lock", "release", lock["id"], "--token", str(lock["token"])).code == 76
    headgate("lock", "release", kept["id"], "--token", str(held["r:2"]["token"]))
    told = headgate("history", "--json", "--event", "expire").json["items"]
    assert told[0]["resource"] == "r:1"
    assert told[0]["reason"].endswith("an old disk image")
    shown = headgate("store", "show", "--json").json["stores"][0]
    assert shown["token_floor"] > 2**40
    assert shown["raised_because"].endswith("an old disk image")
    assert "tokens raised" in headgate("store", "show").out


def test_nothing_is_raised_without_being_asked_for(headgate: Headgate) -> None:
    headgate.acquire("r:1", "--lease", "600s")
    looked = headgate("store", "raise-tokens", "--reason", "perhaps", "--dry-run")
    assert "would expire 1 leased lock, 0 claims" in looked.out
    assert headgate("store", "raise-tokens", "--reason", "perhaps", "--dry-run", "--json").json["dry_run"] is True
    refused = headgate("store", "raise-tokens", "--reason", "perhaps")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert headgate("store", "raise-tokens", "--yes").code == 2
    assert headgate("store", "raise-tokens", "--yes", "--reason", " ").code == 2
    assert len(headgate("lock", "list", "--json").json["items"]) == 1
    assert headgate("store", "show", "--json").json["stores"][0]["token_floor"] == 0
