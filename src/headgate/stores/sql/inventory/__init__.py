"""Stored objects and the outbox in SQL."""
