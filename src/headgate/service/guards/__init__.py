"""Storage guards: real locks of the storage system under ours."""
