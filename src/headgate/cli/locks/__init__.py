"""`headgate lock`."""
