"""Broken OCFL objects: for each validation code, ways to cause it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ingest.ocfl_objects import (
    MD5_OF_ONE,
    VERSIONS,
    Broken,
    add_digest,
    below,
    content_path,
    copy_inventory,
    drop,
    fixity_path,
    folder,
    hard_link,
    link,
    logical_path,
    move,
    of_each_version,
    other_algorithm,
    other_sidecar,
    pipe,
    put,
    remove,
    rename,
    twice_in_fixity,
    twice_in_manifest,
    twice_in_state,
    unknown_state_digest,
    unlisted_file,
    unused_digest,
    within,
    write,
)

#: No md5 values mapped to lists of content paths.
STRANGE_MD5: list[Any] = [
    [], {"0" * 32: "a.txt"}, {"0" * 32: ["ghost.txt"]}, {"x": []}, {"0" * 32: [7]}, None,
]  # fmt: skip
#: Ways to change a content path: in the manifest, or in the fixity block alone.
CHANGES: list[Callable[[Callable[[str], Any]], Broken]] = [
    lambda change: Broken(content_path(change)),
    lambda change: Broken(fixity_path(change)),
]
#: For each validation code: ways to cause it.
BROKEN: dict[str, list[Broken]] = {
    "E001": [
        Broken(files=write("stray.txt")),
        Broken(files=folder("stray")),
        Broken(files=pipe("pipe")),
        Broken(files=write("logs")),
    ],
    "E002": [Broken(files=move("0=*", lambda name: name.removeprefix("0=")))],
    "E003": [Broken(files=remove("0=*")), Broken(files=write("0=ocfl_object_1.0", b"ocfl_object_1.0\n"))],
    "E004": [
        Broken(files=move("0=*", lambda name: name.replace("0=", "x="))),
        Broken(files=move("0=*", lambda name: name.replace("0=", "00="))),
    ],
    "E005": [Broken(files=move("0=*", lambda name: name.replace("0=", "1=")))],
    "E006": [
        Broken(files=move("0=*", lambda _name: "0=ocfl_object_9.9")),
        Broken(files=move("0=*", lambda _name: "0=ocfl_objekt_1.1")),
    ],
    "E007": [
        Broken(files=write("0=ocfl_object_1.1", b"ocfl_object_1.1"), change={"specification": "1.1"}),
        Broken(files=write("0=ocfl_object_1.0", b""), change={"specification": "1.0"}),
    ],
    "E008": [Broken(put("versions", value={}))],
    "E009": [Broken(rename("v1", "v3", "versions")), Broken(drop("versions", "v1"), only=2)],
    "E010": [Broken(rename("v2", "v3", "versions")), Broken(files=remove("v2"))],
    "E011": [Broken(rename("v02", "v10", "versions"), change={"width": 2})],
    "E012": [Broken(rename("v02", "v002", "versions"), change={"width": 2})],
    "E013": [
        Broken(rename("v2", "v02", "versions")),
        Broken(rename("v002", "v2", "versions"), change={"width": 3}),
    ],
    "E014": [Broken(content_path(lambda path: path.replace("v1/", "v01/")))],
    "E015": [
        Broken(files=write("v1/stray.txt")),
        Broken(files=remove("v1/inventory.json")),
        Broken(files=write("v1/inventory.json.sha256", b"0" * 64 + b" inventory.json\n")),
    ],
    "E016": [Broken(files=remove("v1/content"))],
    "E017": [Broken(put("contentDirectory", value="a/b"))],
    "E018": [Broken(put("contentDirectory", value="..")), Broken(put("contentDirectory", value="."))],
    "E019": [Broken(put("contentDirectory", value="content"), only=2)],
    "E020": [
        Broken(put("contentDirectory", value="other"), only=1),
        # The first version has no inventory that could contradict it.
        Broken(put("contentDirectory", value="other"), only=2, files=remove("v1/inventory.json*"),
               change={"versions": (*VERSIONS, VERSIONS[0])}),
    ],
    "E021": [Broken(content_path(lambda path: path.replace("/content/", "/data/")))],
    "E023": [Broken(files=write("v1/content/stray.txt")), Broken(unlisted_file, only=1)],
    "E024": [Broken(files=folder("v1/content/empty")), Broken(files=folder("v1/content/x/y"))],
    "E025": [Broken(put("digestAlgorithm", value="md5")), Broken(put("digestAlgorithm", value=["sha512"]))],
    "E029": [Broken(put("fixity", value={"sha1": {"xyz": ["v1/content/a.txt"]}}))],
    "E030": [Broken(put("fixity", value={"sha256": {"g" * 64: ["v1/content/a.txt"]}}))],
    "E031": [Broken(put("fixity", value={"sha512": {"": ["v1/content/a.txt"]}}))],
    "E032": [Broken(put("fixity", value={"blake2b-512": {"0" * 64: ["v1/content/a.txt"]}}))],
    "E033": [
        Broken(files=write("inventory.json", content))
        for content in (
            b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"id": "a", "id": "b"}', b'{"id": NaN}', b'{"id": "\\ud800"}',
            b"[" * 100_000, b'{"a":' * 60 + b"1" + b"}" * 60, b"\xef\xbb\xbf{}", b"123", b'"inventory"',
        )
    ],
    "E034": [
        Broken(files=move("inventory.json", lambda _name: "inventory.jsonld")),
        Broken(files=move("inventory.json", lambda _name: "Inventory.json")),
    ],
    "E035": [
        Broken(content_path(lambda path: path.replace("/", "\\"))),
        Broken(fixity_path(lambda path: path.replace("/", "\\"))),
    ],
    "E036": [Broken(drop(key)) for key in ("id", "type", "digestAlgorithm", "head")],
    "E037": [Broken(put("id", value="")), Broken(put("id", value=7)), Broken(put("id", value=None))],
    "E038": [
        Broken(put("type", value="https://ocfl.io/9.9/spec/#inventory")),
        Broken(put("type", value={})),
        Broken(put("type", value="https://ocfl.io/1.1/spec/#inventory"), change={"specification": "1.0"}),
    ],
    "E039": [Broken(other_algorithm)],
    "E040": [
        Broken(put("head", value="v1"), only=2),
        Broken(put("head", value=2)),
        *[
            Broken(files=copy_inventory(*places), change={"versions": (*VERSIONS, VERSIONS[0])})
            for places in (("v1", "v2"), ("v2", "v1"), (".", "v1"))
        ],
    ],
    "E041": [Broken(drop("manifest"))],
    "E042": [
        Broken(content_path(lambda _path: "elsewhere/content/a.txt")),
        Broken(content_path(lambda _path: "a.txt")),
        Broken(content_path(lambda _path: "v1/content")),
        Broken(content_path(lambda path: path.replace("/d/", "/e/")), change={"directory": "d"}),
    ],
    "E043": [Broken(drop("versions"))],
    "E044": [Broken(rename("versions", "Versions"))],
    "E045": [Broken(put("versions", value=[])), Broken(put("versions", value=None))],
    "E046": [Broken(files=remove("v1")), Broken(files=folder("v3"))],
    "E047": [Broken(put("versions", "v1", value=[])), Broken(put("versions", "v1", value="one"))],
    "E048": [Broken(of_each_version(drop("created"))), Broken(of_each_version(drop("state")))],
    "E049": [
        Broken(of_each_version(put("created", value=value)))
        for value in (
            "yesterday", "2026-11-18", "2026-11-18T08:00:00", "2026-11-18T08:00Z", "2026-02-30T08:00:00Z",
            "2026-11-18T25:00:00Z", 20261118, None, "2026-11-18 08:00:00Z",
        )
    ],
    "E050": [
        Broken(unknown_state_digest),
        Broken(of_each_version(put("state", value=[]))),
        Broken(of_each_version(put("state", value={"0" * 128: "a.txt"}))),
    ],
    "E051": [Broken(logical_path(lambda _path: 7)), Broken(logical_path(lambda path: [path]))],
    "E052": [
        Broken(logical_path(below(part))) for part in ("..", ".", "")
    ] + [Broken(logical_path(lambda _path: ".."))],
    "E053": [Broken(logical_path(lambda path: f"/{path}")), Broken(logical_path(lambda path: f"{path}/"))],
    "E054": [
        Broken(of_each_version(put("user", value=value)))
        for value in ({}, "Ann", {"name": 7}, {"name": ""}, {"name": "Ann", "address": 7}, None)
    ],
    "E055": [Broken(rename("fixity", "Fixity"))],
    "E056": [
        Broken(put("fixity", value={name: {}})) for name in ("crc32", "adler32", "sha384", "MD5", "sha3-256", "")
    ],
    "E057": [
        Broken(put("fixity", value={"md5": value}))
        for value in STRANGE_MD5
    ] + [Broken(put("fixity", value={"size": {"many": ["v1/content/a.txt"]}}))],
    "E058": [Broken(files=remove("inventory.json.sha*")), Broken(files=remove("v1/inventory.json.sha*"))],
    "E059": [Broken(files=other_sidecar)],
    "E060": [Broken(files=write("inventory.json.sha512", b"0" * 128 + b" inventory.json\n"))],
    "E061": [
        Broken(files=write("inventory.json.sha512", content))
        for content in (b"", b"0" * 128, b"0" * 128 + b" inventory.txt\n", b"xyz inventory.json\n", b"\xff" * 9000)
    ],
    "E063": [Broken(files=remove("inventory.json")), Broken(files=remove("*"))],
    "E064": [Broken(files=write("v2/inventory.json", b"{}"))],
    "E066": [
        Broken(logical_path(lambda path: f"other-{path}"), only=1),
        Broken(rename("v1", "v7", "versions"), only=1),
    ],
    "E067": [Broken(files=write("extensions/stray.txt"))],
    "E089": [Broken(files=pipe("v1/content/pipe"))],
    "E090": [
        Broken(files=link("v1/content/link", "a.txt")),
        Broken(files=link("link", "/etc")),
        Broken(files=hard_link("v1/content/again.txt", "v1/content/a.txt")),
    ],
    "E092": [
        Broken(files=write("v1/content/a.txt", b"damaged")),
        Broken(files=remove("v1/content/a.txt")),
        Broken(put("manifest", "0" * 128, value="v1/content/a.txt")),
        Broken(put("manifest", "0" * 128, value=[])),
    ],
    "E093": [Broken(put("fixity", value={name: {"0" * digits: ["v1/content/a.txt"]}})) for name, digits in (
        ("md5", 32), ("sha1", 40), ("sha256", 64), ("sha512", 128), ("blake2b-512", 128), ("blake2b-160", 40),
        ("blake2b-256", 64), ("blake2b-384", 96), ("sha512/256", 64), ("size", 1),
    )] + [Broken(files=remove("v1/content/a.txt"))],
    "E094": [Broken(of_each_version(put("message", value=7))), Broken(of_each_version(put("message", value=None)))],
    "E095": [
        Broken(twice_in_state),
        Broken(logical_path(lambda _path: "deep")),
    ],
    "E096": [Broken(add_digest(str.upper))],
    "E097": [Broken(twice_in_fixity)],
    "E098": [change(way) for change in CHANGES for way in (lambda _path: 7, lambda path: [path])],
    "E099": [change(within(part)) for change in CHANGES for part in ("..", ".", "")],
    "E100": [change(way) for change in CHANGES for way in (lambda path: f"/{path}", lambda path: f"{path}/")],
    "E101": [
        Broken(twice_in_manifest),
        Broken(content_path(lambda _path: "v1/content/deep")),
        Broken(put("fixity", value={"md5": {MD5_OF_ONE: ["v1/content/a.txt"] * 2}})),
    ],
    "E102": [
        Broken(put("note", value="x")),
        Broken(of_each_version(put("note", value="x"))),
        Broken(of_each_version(put("user", value={"name": "Ann", "address": "mailto:a@b", "note": 1}))),
    ],
    "E103": [
        Broken(put("type", value="https://ocfl.io/1.1/spec/#inventory"), only=1, change={"specification": "1.0"})
    ],
    "E104": [Broken(rename("v2", "2", "versions")), Broken(rename("v2", "", "versions"))],
    "E105": [
        Broken(rename("v2", name, "versions")) for name in ("v0", "v-2", "v2a", "v\u0662", "v", "v" + "9" * 5000)
    ],
    "E106": [Broken(put("manifest", value=[])), Broken(put("manifest", value=None))],
    "E107": [Broken(unused_digest)],
    "E108": [Broken(put("contentDirectory", value="")), Broken(put("contentDirectory", value=7))],
    "E110": [Broken(put("id", value="info:example/other"), only=1)],
    "E111": [Broken(put("fixity", value=[])), Broken(put("fixity", value=None))],
    "W001": [Broken(change={"width": 4})],
    "W002": [
        Broken(files=write("v1/notes/a.txt")),
        Broken(files=folder("v1/inventory.json.sha256")),
    ],
    "W003": [
        Broken(files=folder("v2/content"), change={"versions": (VERSIONS[0], {"a.txt": b"two"})}),
    ],
    "W004": [Broken(change={"algorithm": "sha256"})],
    "W005": [Broken(change={"object_id": "object one"})],
    "W007": [Broken(of_each_version(drop("message"))), Broken(of_each_version(drop("user")))],
    "W008": [Broken(of_each_version(put("user", value={"name": "Ann"})))],
    "W009": [Broken(of_each_version(put("user", value={"name": "Ann", "address": "Main Street 1"})))],
    "W010": [
        Broken(files=remove("v1/inventory.json*")),
    ],
    "W011": [Broken(of_each_version(put("message", value="another")), only=1)],
    "W013": [Broken(files=folder("extensions/my-own"))],
}  # fmt: skip
