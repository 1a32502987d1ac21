"""Ingest profiles: read from a folder, checked, and stored with each batch at its start."""
