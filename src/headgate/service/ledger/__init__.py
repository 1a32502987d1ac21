"""Datasets, jobs and chunks: the use cases, questions, and pictures of many chunks."""
