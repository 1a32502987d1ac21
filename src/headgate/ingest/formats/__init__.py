"""Formats of others: manifests, metadata, identifiers, digests and names of files."""
