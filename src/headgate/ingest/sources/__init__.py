"""Where payloads come from: addresses, buckets and folders, fetched by rules that keep us from being misled."""
