"""Who owns what, which scopes an API token has, what a caller may see, and sealed credentials."""
