"""Ingest: its formats, what comes from strangers, where objects are kept, and every step from end to end."""
