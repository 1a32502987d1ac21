"""The service on a port: the server, its connections, and TLS."""
