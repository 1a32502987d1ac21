"""The work on an ingest job in each of its states: formats, names, decisions, and the steps themselves."""
