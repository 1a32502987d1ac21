"""The state of a store: status, counts, alarms, and the last day."""
