"""The OCFL community's test objects for validators, recreated by their names, and the codes in these names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.ingest.validation.objects import validate_object
from headgate.ingest.validation.trees import FolderTree
from tests.ingest.ocfl_mutants import FORMS
from tests.ingest.ocfl_objects import (
    VERSIONS,
    Broken,
    Document,
    content_path,
    copy_inventory,
    drop,
    fixity_path,
    folder,
    logical_path,
    move,
    of_each_version,
    put,
    remove,
    rename,
    twice_in_fixity,
    twice_in_manifest,
    twice_in_state,
    unused_digest,
    write,
)
from tests.ingest.validator import verdicts

THREE = {"versions": (*VERSIONS, VERSIONS[0])}
ONE = {"versions": VERSIONS[:1]}


def both(*changes: Callable[[Document], object]) -> Callable[[Document], object]:
    def edit(document: Document) -> None:
        for change in changes:
            change(document)

    return edit


def append(name: str) -> Callable[[Path], object]:
    """Change a file without changing its meaning."""
    return lambda root: (root / name).write_bytes((root / name).read_bytes() + b"\n")


def without_first_file(document: Document) -> None:
    """Remove a file that is only in the first version from the manifest, but not from the version's state."""
    document["manifest"].pop(next(iter(document["manifest"])))
    document["fixity"] = {}


def upper_state(document: Document) -> None:
    for version in document["versions"].values():
        version["state"] = {digest.upper(): paths for digest, paths in version["state"].items()}


def wrong_digest(document: Document) -> None:
    """Another digest in manifest and state, which no file has."""
    old = next(iter(document["manifest"]))
    new = "0" * len(old)
    document["manifest"][new] = document["manifest"].pop(old)
    for version in document["versions"].values():
        if old in version["state"]:
            version["state"][new] = version["state"].pop(old)


def outside_content(document: Document) -> None:
    for digest, paths in document["manifest"].items():
        document["manifest"][digest] = [path.replace("/content/", "/") for path in paths]
    document["fixity"] = {}


def numbers_from_ten(document: Document) -> None:
    """Ten versions with two digits, the last one without zero."""
    first = document["versions"]["v01"]
    document["versions"] = {f"v{number:02}": first for number in range(1, 11)}
    document["head"] = "v10"


#: By name in their collection, which begins with the expected codes: how to create the object, and further codes that
#: OCFL 1.1 requires (where the name is older).
FIXTURES: dict[str, tuple[Broken, str]] = {
    "E001_extra_dir_in_root": (Broken(files=folder("extra_dir")), ""),
    "E001_extra_file_in_root": (Broken(files=write("extra_file")), ""),
    "E001_invalid_version_format": (Broken(files=move("v1", lambda _: "1")), "E046"),
    "E001_v2_file_in_root": (Broken(files=write("v2"), change=ONE), ""),
    "E003_E063_empty": (Broken(files=remove("*")), ""),
    "E003_no_decl": (Broken(files=remove("0=*")), ""),
    "E003_two_declarations": (Broken(files=write("0=ocfl_object_1.0", b"ocfl_object_1.0\n")), ""),
    "E007_bad_declaration_contents": (Broken(files=write("0=ocfl_object_1.1", b"This is not the right content!")), ""),
    "E008_E036_no_versions_no_head": (Broken(both(put("versions", value={}), drop("head"))), ""),
    "E009_version_two_only": (Broken(drop("versions", "v1"), only=2), ""),
    "E010_missing_versions": (Broken(files=remove("v3"), change=THREE), "E046"),
    "E010_skipped_versions": (Broken(rename("v2", "v4", "versions")), ""),
    "E011_E013_invalid_padded_head_version": (Broken(numbers_from_ten, change={**ONE, "width": 2}), ""),
    "E015_content_not_in_content_dir": (Broken(outside_content, files=write("v1/a.txt", b"one")), "E042"),
    "E017_invalid_content_dir": (Broken(put("contentDirectory", value="content/dir")), ""),
    "E020_inconsistent_content_dir": (Broken(put("contentDirectory", value="content-dir"), only=1), ""),
    "E023_extra_file": (Broken(files=write("v1/content/file2.txt")), ""),
    "E092_missing_file": (Broken(files=remove("v1/content/a.txt")), ""),
    "E023_old_manifest_missing_entries": (Broken(without_first_file, only=1), "E050"),
    "E024_empty_dir_in_content": (Broken(files=folder("v1/content/empty")), ""),
    "E025_wrong_digest_algorithm": (Broken(put("digestAlgorithm", value="md5")), ""),
    "E033_inventory_bad_json": (Broken(files=write("inventory.json", b'{"id": ')), ""),
    "E036_no_id": (Broken(drop("id")), ""),
    "E036_no_head": (Broken(drop("head")), ""),
    "E037_inconsistent_id": (Broken(put("id", value="urn:example-two"), only=1), "-E037 E110"),
    "E040_head_not_most_recent": (Broken(put("head", value="v1"), only=2), ""),
    "E040_wrong_head_doesnt_exist": (Broken(put("head", value="v3"), only=2), ""),
    "E040_wrong_head_format": (Broken(put("head", value=1)), ""),
    "E040_wrong_version_in_version_dir": (Broken(files=copy_inventory("v3", "v2"), change=THREE), ""),
    "E041_no_manifest": (Broken(drop("manifest")), ""),
    "E041_manifest_not_object": (Broken(put("manifest", value=[])), "-E041 E106"),
    "E042_bad_manifest_content_path": (Broken(content_path(lambda _: "a.txt")), ""),
    "E046_missing_version_dir": (Broken(files=remove("v2")), ""),
    "E046_root_not_most_recent": (Broken(files=folder("v3")), ""),
    "E049_E050_E054_bad_version_block_values": (
        Broken(of_each_version(lambda version: version.update(created=1, state="s", user="u", message=[]))), "E094",
    ),
    "E049_created_no_timezone": (Broken(of_each_version(put("created", value="2019-01-01T02:03:04"))), ""),
    "E049_created_not_to_seconds": (Broken(of_each_version(put("created", value="2019-01-01T01:02Z"))), ""),
    "E050_file_in_manifest_not_used": (Broken(unused_digest), "-E050 E107"),
    "E050_manifest_digest_wrong_case": (Broken(upper_state), ""),
    "E053_E052_invalid_logical_paths": (
        Broken(of_each_version(lambda version: version.update(
            state=dict(zip(version["state"], (["/file-1.txt"], ["../../file-2.txt"], ["//file-3.txt"]), strict=False))
        ))), "",
    ),
    "E056_null_fixity": (Broken(put("fixity", value=None)), "-E056 E111"),
    "E058_no_sidecar": (Broken(files=remove("inventory.json.*")), ""),
    "E060_E064_root_inventory_digest_mismatch": (Broken(files=append("inventory.json")), ""),
    "E060_version_inventory_digest_mismatch": (Broken(files=append("v1/inventory.json")), ""),
    "E061_invalid_sidecar": (Broken(files=write("inventory.json.sha512", b"no digest")), ""),
    "E063_no_inv": (Broken(files=remove("inventory.json")), ""),
    "E064_different_root_and_latest_inventories": (Broken(files=copy_inventory("v1", "v2")), ""),
    "E066_E092_old_manifest_digest_incorrect": (Broken(wrong_digest, only=1), ""),
    "E066_inconsistent_version_state": (Broken(logical_path(lambda path: f"old-{path}"), only=1), ""),
    "E067_file_in_extensions_dir": (Broken(files=write("extensions/extra_file")), ""),
    "E092_content_file_digest_mismatch": (Broken(files=write("v1/content/a.txt", b"another")), "E093"),
    "E092_E093_content_path_does_not_exist": (Broken(files=remove("v1/content/a.txt")), ""),
    "E092_bad_manifest_digest": (Broken(wrong_digest), ""),
    "E057_fixity_of_a_file_that_is_not_in_the_manifest": (
        Broken(put("fixity", value={"md5": {"0" * 32: ["v1/content/bonus.txt"]}})), "",
    ),
    "E093_fixity_digest_mismatch": (
        Broken(put("fixity", value={"md5": {"9eacfb9289073dd9c9a8c4cdf820ac71": ["v1/content/a.txt"]}})), "",
    ),
    "E093_fixity_digest_mismatch_in_v1": (
        Broken(put("fixity", value={"md5": {"9eacfb9289073dd9c9a8c4cdf820ac71": ["v1/content/a.txt"]}}), only=1), "",
    ),
    "E094_message_not_a_string": (Broken(of_each_version(put("message", value=["a", "b"]))), ""),
    "E095_conflicting_logical_paths": (Broken(logical_path(lambda _: "deep")), ""),
    "E095_non_unique_logical_paths": (Broken(twice_in_state), ""),
    "E097_fixity_duplicate_digests": (Broken(twice_in_fixity), "E101"),
    "E099_bad_content_path_elements": (Broken(content_path(lambda _: "v1/content/../content/file-1.txt")), ""),
    "E100_fixity_invalid_content_paths": (Broken(fixity_path(lambda path: f"/{path}")), "E057"),
    "E099_fixity_invalid_content_paths": (
        Broken(fixity_path(lambda path: path.replace("/content/", "/content/../content/"))), "E057",
    ),
    "E100_manifest_invalid_content_paths": (Broken(content_path(lambda path: f"/{path}")), ""),
    "E101_non_unique_content_paths": (Broken(twice_in_manifest), ""),
    "E103_older_spec_v2": (
        Broken(put("type", value="https://ocfl.io/1.0/spec/#inventory"), only=2, change=THREE), "",
    ),
    "E111_null_fixity": (Broken(put("fixity", value=None)), ""),
}  # fmt: skip
#: Objects that are valid, with warnings.
WARNED: dict[str, Broken] = {
    "W001_zero_padded_versions": Broken(change={"width": 4}),
    "W001_W004_W005_zero_padded_versions": Broken(change={"width": 4, "algorithm": "sha256", "object_id": "bb123cd"}),
    "W002_extra_dir_in_version_dir": Broken(files=folder("v1/extra_dir")),
    "W003_empty_content_dir": Broken(files=folder("v2/content"), change={"versions": (VERSIONS[0], VERSIONS[0])}),
    "W004_uses_sha256": Broken(change={"algorithm": "sha256"}),
    "W005_id_not_uri": Broken(change={"object_id": "not_a_uri"}),
    "W007_no_message_or_user": Broken(of_each_version(both(drop("user"), drop("message")))),
    "W008_user_no_address": Broken(of_each_version(put("user", value={"name": "Bob"}))),
    "W009_user_address_not_uri": Broken(of_each_version(put("user", value={"name": "Bob", "address": "somewhere"}))),
    "W010_no_version_inventory": Broken(files=remove("v1/inventory.json*")),
    "W011_version_inv_diff_metadata": Broken(of_each_version(put("message", value="another")), only=1),
    "W013_unregistered_extension": Broken(files=folder("extensions/unregistered")),
}


def codes_of(root: Path) -> set[str]:
    return {each.code for each in validate_object(FolderTree(root)).findings}


def expected(name: str, also: str) -> set[str]:
    codes = {part for part in name.split("_") if part[:1] in "EW" and part[1:].isdigit()}
    for word in also.split():
        codes ^= {word.removeprefix("-")}
    return codes


@pytest.mark.parametrize("name", FIXTURES)
def test_a_bad_object_is_reported_with_the_codes_of_its_name(tmp_path: Path, name: str) -> None:
    broken, also = FIXTURES[name]
    found = codes_of(broken.make(tmp_path / "object"))
    assert expected(name, also) <= found


@pytest.mark.parametrize("name", WARNED)
def test_a_valid_object_has_the_warnings_of_its_name(tmp_path: Path, name: str) -> None:
    assert codes_of(WARNED[name].make(tmp_path / "object")) == expected(name, "")


def test_the_independent_validator_rejects_the_same_objects(tmp_path: Path) -> None:
    bad = [(name, form) for name in FIXTURES for form in FORMS]
    roots = [FIXTURES[name][0].make(tmp_path / "-".join((name, *form)), *form) for name, form in bad]
    for root, (valid, _codes) in zip(roots, verdicts(roots), strict=True):
        ours = validate_object(FolderTree(root)).errors
        assert valid is None or valid == (not ours), (root.name, valid, ours)
    good = [WARNED[name].make(tmp_path / name) for name in WARNED]
    assert [valid for valid, _codes in verdicts(good)] == [True] * len(good)
