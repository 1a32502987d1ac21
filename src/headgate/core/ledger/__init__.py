"""Datasets, jobs, chunks and claims as values: their tables, units of work, data ids and pipeline files."""
