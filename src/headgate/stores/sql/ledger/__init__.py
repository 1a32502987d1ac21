"""Datasets, jobs, chunks and claims in SQL: one trip where the fast path can decide; otherwise load, decide, apply."""
