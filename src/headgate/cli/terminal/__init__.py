"""Shared by all commands: the console, options and their values, tables, JSON, progress, errors."""
