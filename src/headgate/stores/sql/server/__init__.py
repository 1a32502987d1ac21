"""The server that keeps a store: its epoch, its clock, and the times when the service was away."""
