"""Ensembl's locker: its names over ours, and how its tables are taken over."""
