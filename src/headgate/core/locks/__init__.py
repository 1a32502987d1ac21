"""Locks and waiters as values: the tables that decide about them, and the units of work that stores carry out."""
