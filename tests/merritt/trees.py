"""A tree as it is, and as it should be: every node with its content, except Headgate's own."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.merritt.other_side import OtherSide

Tree = dict[str, Any]
#: Placeholders for values that differ each time: a time in Merritt's form, names of batches and jobs; and a lock of a
#: session.
NOW, BATCH_NAME, JOB_NAME, EPHEMERAL = "<now>", "<bid-uuid>", "<jid-uuid>", "<ephemeral>"
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}")
_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAMES = {BATCH_NAME: re.compile(f"bid-{_UUID}"), JOB_NAME: re.compile(f"jid-{_UUID}")}


def tree_of(side: OtherSide) -> Tree:
    """Every node below the root except those of Headgate."""
    found: Tree = {}
    _walk(side, "", found)
    return found


def uuid_of(batch: str) -> str:
    """The node of a batch by its own name, which differs each time."""
    return f"/batch-uuids/<of {batch}>"


def _walk(side: OtherSide, path: str, found: Tree) -> None:
    for name in side.names(path or "/") if path else sorted(side.zk.get_children(side.root or "/")):
        child = f"{path}/{name}"
        if child in ("/headgate", "/zookeeper"):
            continue
        data, stat = side.zk.get(side.path(child))
        content = EPHEMERAL if stat.ephemeralOwner else _content(data)
        found[uuid_of(content) if path == "/batch-uuids" else child] = content
        _walk(side, child, found)


def _content(data: bytes | None) -> Any:
    text = (data or b"").decode()
    if not text.startswith("{"):
        return _plain(text) or None
    content = {key: _plain(value) if isinstance(value, str) else value for key, value in json.loads(text).items()}
    if "status" in content:  # Every transition has its own message.
        assert isinstance(content.pop("message"), str)
    return content


def _plain(text: str) -> str:
    if _TIME.fullmatch(text):
        return NOW
    for name, pattern in _NAMES.items():
        text = pattern.sub(name, text)
    return text


def with_folders(tree: Tree) -> Tree:
    """The same, including the parent folders of its nodes."""
    folders = {path[: at.start()] for path in tree for at in re.finditer("/", path)} - {""}
    return dict.fromkeys(folders) | tree
