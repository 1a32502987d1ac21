"""Locks, ledger, queue and history in SQLite, PostgreSQL or MariaDB: one code, one schema, one contract."""
