"""Connections, transactions and statements: everything that is independent of our nouns."""
