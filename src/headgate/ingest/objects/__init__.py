"""Stored objects: read back, verified, exported and deleted; files that depositors submit."""
