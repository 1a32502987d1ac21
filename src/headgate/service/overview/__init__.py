"""How things stand: status, counts, alarms, and the last day."""
