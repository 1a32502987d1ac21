"""News for callers that wait for a chunk or an item, in every process of the store."""
