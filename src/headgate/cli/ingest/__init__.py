"""`headgate ingest`: batches, ingest jobs, profiles, stored objects and messages."""
