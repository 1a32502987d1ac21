"""Batches, ingest jobs and holds in SQL: load a snapshot, decide in core, apply changes."""
