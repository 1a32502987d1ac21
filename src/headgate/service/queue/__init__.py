"""Batches and ingest jobs: the use cases, questions, who works on them, and where their files are."""
