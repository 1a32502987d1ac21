"""Idempotency keys in ZooKeeper: the record of a request is a node that the multi of its effect makes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.calls.idempotency import KEPT_SECONDS, Kept, Keyed, Repeated, effect, pending
from headgate.core.values.documents import read_document
from headgate.stores.zookeeper.ensemble.asking import look, make, read, remove, write
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.tree import Tree, parent

#: Characters of a result that a node keeps; a longer one is left out.
MOST_RESULT = 20_000


def key_ops(sessions: ZkSessions, tree: Tree, result: Any) -> list[Op]:
    """Return the part of a multi that makes the record of the request that the multi is the effect of."""
    keyed = pending()
    kept = None if keyed is None else effect(keyed, result)
    if keyed is None or kept is None:
        return []
    path = tree.repeat(keyed.id)
    sessions.base.ask(make(parent(parent(path))), make(parent(path)))
    document = {
        "principal": keyed.principal, "digest": keyed.digest, "nonce": keyed.nonce,
        "result": kept if len(kept) <= MOST_RESULT else "",
    }  # fmt: skip
    return [Op("make", path, json.dumps(document).encode())]


def check_keys(ops: Sequence[Op], failed: Op | None) -> None:
    """Note that the record was made; Repeated when it is what the multi failed at: another attempt was first."""
    keyed = pending()
    if keyed is None or not ops:
        return
    if failed is None:
        keyed.kept = True
    elif failed is ops[0]:
        raise Repeated("another attempt of this request was first")


@dataclass(eq=False)
class ZkRepeats:
    """The records of one ensemble. Answers are kept beside the ledger, not here."""

    _sessions: ZkSessions
    _tree: Tree

    def find(self, record_id: str) -> Kept | None:
        found: Any = self._sessions.base.ask(read(self._tree.repeat(record_id)))[0]
        if isinstance(found, Exception):
            return None
        document = read_document(found[0])
        return Kept(str(document["digest"]), str(document["nonce"]), str(document["result"]))

    def answered(self, keyed: Keyed, status: int, answer: str) -> None:
        """Nothing is kept of answers: a node stays small."""

    def drop(self, record_id: str) -> None:
        self._sessions.base.ask(remove(self._tree.repeat(record_id)))

    def clean(self, limit: int = 1000) -> int:
        session = self._sessions.base
        folders = session.names(self._tree.repeats)
        if not folders:  # No request with a key has come so far.
            return 0
        now, removed = session.ask(write(self._tree.clock, b""))[0].mtime, 0
        for folder in folders:
            for portion in windows(session.names(f"{self._tree.repeats}/{folder}")):
                paths = [self._tree.repeat(name) for name in portion]
                stats = session.ask(*map(look, paths))
                old = [path for path, stat in zip(paths, stats, strict=True) if _is_old(stat, now)][: limit - removed]
                removed += len(session.ask(*map(remove, old))) if old else 0
        return removed


def _is_old(stat: Any, now: int) -> bool:
    return stat is not None and now - stat.ctime > KEPT_SECONDS * 1000
