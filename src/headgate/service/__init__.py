"""What may be asked: one use case is one function is one transaction."""
