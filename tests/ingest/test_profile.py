"""Profiles: all mistakes of all files at once, suggestions for names, and snapshots that equal the profile."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadProfiles, BadValue
from headgate.ingest.profiles.profile import Profile, Sources, from_snapshot, load_profile, load_profiles, read_secret

NO_ADDRESS = "is not an http:// or https:// address without user and password"
LEAST = 'collection = "demo"\nowner = "ark:/13030/j2-owner"\n'
WHOLE = """
collection = "demo"
owner = "library"
description = "For tests"
membership = ["ark:13030/m5-one", "ark:/13030/m5two"]
priority = 12
hold = "until Monday"
notification = ["ann@example.org", "ben@example.org"]
confirmation_mail = true
callback_url = "https://example.org/callback"
callback_secret = "env:CALLBACK_KEY"
callback_failure = "warn"
callback_for_failed = true

[storage]
kind = "s3"
url = "s3://bucket/prefix"

[minter]
kind = "register"
shoulder = "ark:13030/m5"
ezid_url = "https://ezid.cdlib.org"
ezid_user = "me"
ezid_password = "file:/run/secrets/ezid"

[sources]
schemes = ["https", "http", "file"]
hosts = ["*.example.org", "example.org"]
ports = [443, 8443]
roots = ["/data/in"]
redirects = 2

[limits]
large_size = 1_000_000
idle_timeout = 30
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(folder: Path, text: str) -> list[str]:
    path = write(folder, "wrong", text)
    with pytest.raises(BadProfiles) as error:
        load_profile(path)
    assert {file for file, _ in error.value.problems} == {str(path)}
    return [what for _, what in error.value.problems]


def test_collection_and_owner_are_enough(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, "demo_content", LEAST))
    assert profile == Profile("demo_content", "demo", "ark:/13030/j2owner")
    assert (profile.priority, profile.callback_failure, profile.minter.kind, profile.storage.kind) == (
        5,
        "fail",
        "local",
        "ocfl",
    )
    assert profile.sources.schemes == ("https",)


def test_a_profile_with_every_key_is_read(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, "whole", WHOLE))
    assert (profile.owner, profile.membership) == ("library", ("ark:/13030/m5one", "ark:/13030/m5two"))
    assert (profile.hold, profile.priority, profile.confirmation_mail) == ("until Monday", 12, True)
    assert profile.notification == ("ann@example.org", "ben@example.org")
    assert (profile.callback_failure, profile.callback_for_failed) == ("warn", True)
    assert (profile.minter.shoulder, profile.minter.ezid_password) == ("ark:/13030/m5", "file:/run/secrets/ezid")
    assert (profile.limits.large_size, profile.limits.idle_timeout, profile.limits.tries) == (1_000_000, 30.0, 4)


@pytest.mark.parametrize("text", [LEAST, WHOLE])
def test_a_snapshot_is_the_profile(tmp_path: Path, text: str) -> None:
    profile = load_profile(write(tmp_path, "p", text))
    assert from_snapshot(json.loads(json.dumps(profile.snapshot()))) == profile


def test_a_snapshot_of_another_release_is_read(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, "p", WHOLE))
    snapshot = profile.snapshot()
    snapshot["forgotten"] = 1
    snapshot["limits"]["forgotten"] = 2
    del snapshot["sources"]["redirects"]
    assert from_snapshot(snapshot).limits == profile.limits
    assert from_snapshot(snapshot).sources.redirects == 0
    with pytest.raises(BadProfiles, match="collection is missing"):
        from_snapshot({"name": "p", "owner": "x"})


def test_every_mistake_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    text = """
    colection = "demo"
    priority = 100
    hold = true
    notification = ["ann@example.org\\nBcc: all", "nobody"]
    confirmation_mail = "yes"
    callback_url = "https://me:secret@example.org/"
    callback_secret = "hunter2"
    callback_failure = "wran"
    limits = 7
    [storage]
    kind = "tape"
    [minter]
    sholder = "ark:/13030/m5"
    shoulder = "m5"
    [sources]
    ports = [0, "http"]
    roots = "/data"
    """
    assert problems_of(tmp_path, text) == [
        "colection is unknown; did you mean 'collection'?",
        "collection is missing. Name of the collection, in the inventory and as a dataset of the ledger.",
        "owner is missing. Owner of the objects. Local ids are unique per owner.",
        "priority = 100 is not a whole number from 0 (first) to 99 (last)",
        "hold = True is bool, not text",
        "notification = 'ann@example.org\\nBcc: all' is not a mail address",
        "confirmation_mail = 'yes' is neither true nor false",
        f"callback_url = 'https://me:***@example.org/' {NO_ADDRESS}",
        "callback_secret = '…' is not a reference to a secret; write env:NAME or file:/path",
        "callback_failure = 'wran' is not one of fail, warn; did you mean 'warn'?",
        "storage.kind = 'tape' is not one of ocfl, s3, http",
        "minter.sholder is unknown; did you mean 'shoulder'?",
        "minter.shoulder = 'm5' does not have the form ark:/12345/name",
        "sources.ports = 0 is not a whole number from 1 to 65535",
        "sources.roots = '/data' is not a list; write [ … ]",
        "limits must be a value, not a table: [limits]",
    ]


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ('[storage]\nkind = "s3"', "storage.url is missing"),
        ('[sources]\nschemes = ["s3"]', "the scheme s3 needs the buckets"),
        ('[storage]\nurl = "s3://x"', "does not fit storage.kind 'ocfl'; it starts with file://"),
        ('[minter]\nkind = "ezid"', "minter.kind 'ezid' needs ezid_url, ezid_user and ezid_password"),
        ('callback_url = "https://h/"', "callback_secret is missing"),
        ("confirmation_mail = true", "has no recipient"),
        ('[sources]\nschemes = ["file"]', "sources.roots is missing"),
    ],
)
def test_contradictory_settings_are_reported(tmp_path: Path, more: str, what: str) -> None:
    (found,) = problems_of(tmp_path, LEAST + more)
    assert what in found


@pytest.mark.parametrize("text", ["collection = ", LEAST + 'name = "other"', "a = 1\na = 2"])
def test_files_that_are_not_profiles_are_reported(tmp_path: Path, text: str) -> None:
    assert len(problems_of(tmp_path, text)) == 1


def test_every_file_is_checked(tmp_path: Path) -> None:
    write(tmp_path, "good", LEAST)
    one = write(tmp_path, "one", "owner = 7")
    (tmp_path / "two.toml").write_bytes(b"\xff")
    (tmp_path / "notes.txt").write_text("no profile")
    with pytest.raises(BadProfiles) as error:
        load_profiles(tmp_path)
    assert [file for file, _ in error.value.problems] == [str(one), str(one), str(tmp_path / "two.toml")]
    one.unlink()
    (tmp_path / "two.toml").unlink()
    assert list(load_profiles(tmp_path)) == ["good"]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadProfiles, match=r"there is no such folder; create it, and write a file NAME\.toml"):
        load_profiles(tmp_path / "none")


def test_every_key_is_documented() -> None:
    kinds: list[Any] = [
        Profile,
        *(key.metadata["check"] for key in fields(Profile) if is_dataclass(key.metadata["check"])),
    ]
    assert len(kinds) == 5
    for key in (key for kind in kinds for key in fields(kind) if (kind, key.name) != (Profile, "name")):
        assert key.metadata["meaning"].endswith("."), key.name


# ---------------------------------------------------------------- sources


SOURCES = Sources(
    ("https", "http", "file", "s3"), ("*.example.org", "example.org", "bucket"), (443, 8443), ("/data/in", "/more/")
)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/x", "https://a.b.EXAMPLE.org./x", "https://example.org:8443/x",
        "http://example.org:443/x",
        "file:///data/in/x", "file:///data/in/a/b%20c", "file://localhost/more/x", "s3://bucket/key",
    ],
)  # fmt: skip
def test_values_that_a_profile_allows(url: str) -> None:
    assert SOURCES.refusal(url) == ""


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.org/x", "ftp is not one of"), ("x", "(none)"), ("http://example.org/x", "port 80"),
        ("https://example.org:22/x", "port 22"), ("https://evil.org/x", "host evil.org"), ("https:///x", "host None"),
        ("https://example.org.evil.org/x", "host"), ("https://xexample.org/x", "host"),
        ("s3://other/key", "host other"),
        ("https://me@example.org/x", "user name"), ("https://example.org@evil.org/x", "user name"),
        ("https://[::1/x", "cannot be read"), ("https://example.org:x/", "cannot be read"),
        ("file:///etc/passwd", "not below"), ("file:///data/inside/x", "not below"), ("file:///data/in", "not below"),
        ("file:///data/in/../../etc/passwd", "not have the form"), ("file:///data/in/%2e%2e/x", "not have the form"),
        ("file:///data/in//x", "not have the form"), ("file://host/data/in/x", "not have the form"),
        ("file:///data/in/%00", "not have the form"),
    ],
)  # fmt: skip
def test_values_that_a_profile_rejects(url: str, why: str) -> None:
    assert why in SOURCES.refusal(url)


@given(st.text("/.%2eabin", max_size=20))
def test_no_file_outside_the_roots_is_allowed(path: str) -> None:
    if not SOURCES.refusal(f"file:///data/in/{path}"):
        resolved = Path(unquote(f"/data/in/{path}"))
        assert ".." not in resolved.parts


def test_without_hosts_every_host_is_allowed_here() -> None:
    assert Sources().refusal("https://anything.org/x") == ""


# ---------------------------------------------------------------- secrets


def test_a_secret_is_read_from_the_source_that_the_profile_names(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    assert read_secret("env:KEY", {"KEY": "k"}) == "k"
    assert read_secret(f"file:{tmp_path}/key", {}) == "s3cret"
    for wrong in ("env:NONE", f"file:{tmp_path}/none"):
        with pytest.raises(BadValue, match="secret"):
            read_secret(wrong, {})
