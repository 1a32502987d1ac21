"""Locks and queue in ZooKeeper: one node a resource or item, one multi a change, one session a lease."""
