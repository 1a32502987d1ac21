"""Locks: the use cases, waiting in the queue, and undoing requests with an unknown outcome."""
