"""The dashboard: pages for people, on the same port and by the same rules as the API."""
