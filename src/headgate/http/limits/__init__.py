"""The limits of a service: requests, bodies, uploads, and attempts to sign in."""
