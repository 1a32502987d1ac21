"""Mails to depositors and callbacks to programs: written once, kept in the outbox, and sent from there."""
