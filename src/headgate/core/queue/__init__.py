"""Batches, ingest jobs and holds as values: their tables and units of work."""
