"""Locks: the use cases, waiting in the queue, and undoing requests whose outcome is unknown."""
