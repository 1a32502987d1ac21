"""How fast, as ratios within one run: against the raw ceiling of each store, and against peers."""
