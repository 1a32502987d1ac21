"""Locks in ZooKeeper: their nodes, what this process remembers of them, waiting, and losses."""
