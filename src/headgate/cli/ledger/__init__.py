"""`headgate define`, `headgate data` and `headgate job`."""
