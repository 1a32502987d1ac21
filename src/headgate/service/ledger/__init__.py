"""Datasets, jobs and chunks: the use cases, queries, and overviews of many chunks."""
