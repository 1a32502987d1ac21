"""What an ingest job does at each of its states: formats, names, decisions, and the work itself."""
