"""Open a store: make it where there is none, and refuse what is not ours before anything is written."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

from headgate.core.errors import ForeignStore, SchemaMismatch
from headgate.stores.zookeeper.address import Address
from headgate.stores.zookeeper.asking import make, read
from headgate.stores.zookeeper.multi import Op, multi
from headgate.stores.zookeeper.session import Sessions

SCHEMA = "1"


def open_tree(sessions: Sessions, address: Address) -> str:
    """The store's tag; the store is made if it is not there."""
    while True:
        data = _read_root(sessions, address)
        if data is not None:
            return _tag(data, address)
        _make_chroot(sessions, address)
        root = json.dumps({"tag": secrets.token_hex(2), "schema": SCHEMA}).encode()
        ops = [Op("make", address.tree.root, root), *(Op("make", path) for path in address.tree.folders)]
        sessions.base.ask(multi(ops))


def _read_root(sessions: Sessions, address: Address) -> bytes | None:
    answer: Any = sessions.base.ask(read(address.tree.root))[0]
    return None if isinstance(answer, Exception) else bytes(answer[0])


def _make_chroot(sessions: Sessions, address: Address) -> None:
    names = address.tree.chroot.split("/")[1:]
    for count in range(1, len(names) + 1):
        sessions.base.ask(make("/" + "/".join(names[:count])))


def _tag(data: bytes, address: Address) -> str:
    try:
        content = json.loads(data)
        tag, schema = str(content["tag"]), str(content["schema"])
    except (ValueError, KeyError, TypeError):
        tag, schema = "", ""
    if not re.fullmatch("[0-9a-f]{4}", tag) or not schema.isdigit():
        raise ForeignStore(
            f"{address.name} has a node {address.tree.root} of something else. Use another folder in the URL"
        )
    if schema != SCHEMA:
        newer = int(schema) > int(SCHEMA)
        what = "of a newer Headgate; upgrade Headgate" if newer else "of an older Headgate; run: headgate migrate"
        raise SchemaMismatch(f"{address.name} has schema {schema}, {what}. This one works with {SCHEMA}")
    return tag
