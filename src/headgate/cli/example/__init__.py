"""`headgate up --example`: a small collection that is ingested, processed by a pipeline, and kept running."""
