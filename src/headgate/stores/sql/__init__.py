"""Locks, ledger, queue and history in SQLite, PostgreSQL or MariaDB: one implementation, one schema, one contract."""
