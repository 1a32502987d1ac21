"""The server of a store: its epoch, its clock, and outages of the service."""
