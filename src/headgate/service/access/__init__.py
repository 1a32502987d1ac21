"""Callers: API tokens, browser sessions, identities, and the view of a limited caller."""
