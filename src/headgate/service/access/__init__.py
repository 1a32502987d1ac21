"""Callers: API tokens, browser sessions, identities, and what a limited caller sees."""
