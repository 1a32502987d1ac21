"""`headgate keys` and `headgate token`."""
