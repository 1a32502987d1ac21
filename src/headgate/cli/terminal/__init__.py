"""What all commands share: the console, options and their values, tables, JSON, progress, errors."""
