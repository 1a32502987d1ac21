"""Open a store: create it if there is none, and refuse foreign nodes before anything is written."""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.errors import ForeignStore, HalfMoved, SchemaMismatch
from headgate.core.values.documents import read_document
from headgate.stores.options import no_store
from headgate.stores.zookeeper.address import Address
from headgate.stores.zookeeper.ensemble.asking import make, read
from headgate.stores.zookeeper.ensemble.multi import Op, multi
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.telemetry import event

SCHEMA = "1"
#: The numbers of batches and ingest jobs are ZooKeeper's own.
NO_BASE = {"bid": 0, "jid": 0}


@dataclass(frozen=True, slots=True)
class RootNode:
    """The content of the store's root node."""

    tag: str
    #: Tokens of batches and ingest jobs, and those of new resources, are greater than this: the store that the queue
    #: came from issued the smaller ones.
    token_base: int = 0
    #: The process that is moving a queue into it, and from where; empty: none.
    arriving: Mapping[str, str] = field(default_factory=dict)
    #: The offset of the numbers of batches (bid) and ingest jobs (jid) from ZooKeeper's own: the store that the queue
    #: came from had issued that many.
    number_base: Mapping[str, int] = field(default_factory=dict)

    def data(self) -> bytes:
        """As stored in the node."""
        more = {
            "token_base": self.token_base, "arriving": dict(self.arriving), "number_base": dict(self.number_base),
        }  # fmt: skip
        said = {name: value for name, value in more.items() if value and value != NO_BASE}
        return json.dumps({"tag": self.tag, "schema": SCHEMA, **said}).encode()


def open_tree(sessions: ZkSessions, address: Address, *, half_moved: bool = False, create: bool = True) -> RootNode:
    """The store's root. `half_moved`: even one whose copy is incomplete. `create`: a missing store is created; NoStore
    otherwise.
    """
    for notice in address.notices():
        event("zookeeper.exposed", logging.WARNING, what=notice)
    tries = Tries(sessions.name)
    while True:
        data = _read_root(sessions, address)
        if data is not None:
            root = read_root(data, address)
            if root.arriving and not half_moved:
                raise HalfMoved(
                    f"{address.name} is the target of a copy that has not finished. If none is running, repeat the "
                    "command: it starts over"
                )
            return root
        if not create:
            raise no_store(address.name)
        _make_chroot(sessions, address)
        ops = [
            Op("make", address.tree.root, RootNode(secrets.token_hex(2)).data()),
            *(Op("make", path) for path in address.tree.folders),
        ]
        sessions.base.ask(multi(ops))
        tries.again(f"the node {address.tree.root} could not be made")


def _read_root(sessions: ZkSessions, address: Address) -> bytes | None:
    answer: Any = sessions.base.ask(read(address.tree.root))[0]
    return None if isinstance(answer, Exception) else bytes(answer[0])


def _make_chroot(sessions: ZkSessions, address: Address) -> None:
    names = address.tree.chroot.split("/")[1:]
    for count in range(1, len(names) + 1):
        sessions.base.ask(make("/" + "/".join(names[:count])))


def read_root(data: bytes, address: Address) -> RootNode:
    """The content of the root, or why it is not used."""
    try:
        content = read_document(data)
        tag, schema = str(content["tag"]), str(content["schema"])
    except (ValueError, KeyError, TypeError):
        content, tag, schema = {}, "", ""
    if not re.fullmatch("[0-9a-f]{4}", tag) or not re.fullmatch("[0-9]{1,9}", schema):
        raise ForeignStore(
            f"{address.name} has a node {address.tree.root} of another program. Use another folder in the URL"
        )
    if schema != SCHEMA:
        newer = int(schema) > int(SCHEMA)
        what = "of a newer Headgate; upgrade Headgate" if newer else "of an older Headgate; run: headgate migrate"
        raise SchemaMismatch(f"{address.name} has schema {schema}, {what}. This Headgate needs {SCHEMA}")
    return RootNode(
        tag, int(content.get("token_base", 0)), content.get("arriving", {}), dict(content.get("number_base", {}))
    )
