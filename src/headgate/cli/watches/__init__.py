"""The command `headgate watch`."""
