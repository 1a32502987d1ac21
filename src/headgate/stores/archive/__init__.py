"""A store in a file: written by a backup and read by a restore, with a record of each restore."""
