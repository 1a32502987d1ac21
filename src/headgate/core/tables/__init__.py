"""State tables: their type, all their rows, and how they are drawn and described."""
