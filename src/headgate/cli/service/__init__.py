"""`headgate up` and `headgate daemon`."""
