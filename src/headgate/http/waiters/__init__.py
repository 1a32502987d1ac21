"""Callers that wait, and streams of events, without a thread for each."""
