"""Pages about batches and ingest jobs."""
