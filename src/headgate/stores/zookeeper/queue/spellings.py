"""The spellings of the queue's tree, by the names that a URL gives them."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.stores.zookeeper.queue.merritt import MerrittTree
from headgate.stores.zookeeper.queue.tree import QueueTree

SPELLINGS: Mapping[str, type[QueueTree]] = {tree.spelling: tree for tree in (QueueTree, MerrittTree)}
