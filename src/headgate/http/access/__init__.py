"""Callers: API tokens, scopes, and sessions of browsers."""
