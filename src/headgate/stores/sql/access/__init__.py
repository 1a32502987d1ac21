"""Sealed credentials, API tokens and browser sessions in SQL. This code cannot open or sign anything."""
