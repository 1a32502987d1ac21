"""Batches and ingest jobs: the use cases, queries, running daemons, and the work folder."""
