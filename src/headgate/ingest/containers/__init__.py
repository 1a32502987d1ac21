"""Reading and unpacking untrusted zip and tar files within limits."""
