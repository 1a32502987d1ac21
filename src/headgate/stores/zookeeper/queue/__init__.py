"""Batches, ingest jobs and holds in ZooKeeper, in our own spelling and in Merritt's."""
