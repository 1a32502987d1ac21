"""What is done to a batch or an ingest job in each of its states."""
