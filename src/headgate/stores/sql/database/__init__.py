"""Connections, transactions and statements: all that knows no noun of ours."""
