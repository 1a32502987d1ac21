"""Waiting callers, and streams of events, without a thread for each."""
