"""Ingest: its formats, untrusted input, storage, and every step from end to end."""
