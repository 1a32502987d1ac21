"""Locks and waiters as values: their tables, and the units of work that stores execute."""
