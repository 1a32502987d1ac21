"""Keeping leases alive, and waiting without a thread for each who waits."""
