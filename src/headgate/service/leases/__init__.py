"""Renewing leases, and waiting without one thread per waiter."""
