"""Watchers: `places` lists folders and prefixes of buckets, `watcher` publishes what is complete there."""
