"""The service: the same questions over HTTP, for any language."""
