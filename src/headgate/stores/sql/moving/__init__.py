"""Moving a whole store, or its queue, into a database or out of it."""
