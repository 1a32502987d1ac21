"""Sealed credentials, API tokens and browser sessions in SQL. Nothing here can open or sign anything."""
