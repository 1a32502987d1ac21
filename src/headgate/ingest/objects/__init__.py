"""Stored objects: reading, verifying, exporting and deleting them; and files that depositors submit."""
