"""External formats: manifests, metadata, identifiers, digests and file names."""
