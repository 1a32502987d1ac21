"""The handlers of a batch or an ingest job in each of its states."""
