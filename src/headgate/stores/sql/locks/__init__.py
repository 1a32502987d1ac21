"""Locks in SQL: one trip where the fast path can decide; otherwise load a snapshot, decide in core, apply changes."""
