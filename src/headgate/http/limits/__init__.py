"""How much a service takes on: requests, bodies, uploads, and attempts to sign in."""
