"""A whole store moves: copy, backup and restore, with kills in the middle."""
