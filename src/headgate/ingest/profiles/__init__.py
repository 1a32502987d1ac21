"""Ingest profiles: read from a folder, checked, and kept with each batch as it started."""
