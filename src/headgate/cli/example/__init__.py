"""`headgate up --example`: a small collection that is ingested, worked on by a pipeline, and looked after."""
