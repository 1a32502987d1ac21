"""The API under /v1, derived from the declared operations: routes, schemas, OpenAPI, and the request middleware."""
