"""A whole store, or its queue, on its way into a database or out of it."""
