"""Watchers: `places` lists folders and prefixes of buckets; `watcher` publishes complete chunks."""
