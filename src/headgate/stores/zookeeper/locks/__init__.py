"""Locks in ZooKeeper: their nodes, what this process caches of them, waiting, and losses."""
