"""Keys and secrets: who can open what, and that the plain text leaks nowhere."""
