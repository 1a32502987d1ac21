"""Locks in ZooKeeper: one node a resource, one multi a change, one session a lease."""
