"""A whole store is moved: copy, backup and restore, with kills in the middle."""
