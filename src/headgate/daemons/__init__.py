"""Background daemons."""
