"""Sources of payloads: URLs, buckets and folders, with rules against malicious addresses."""
