"""Secrets of datasets and keys of jobs: sealed and opened on the caller's side, kept sealed in the store."""
