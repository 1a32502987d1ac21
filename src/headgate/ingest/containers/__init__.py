"""Zip and tar files of strangers: read and unpacked within limits."""
