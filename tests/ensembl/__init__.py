"""Ensembl's locker: its names as a facade of ours, and the takeover of its tables."""
