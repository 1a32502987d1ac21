"""A store in a file: written by a backup, read by a restore, and the record of each restore."""
