"""State tables: what one is, the rows of all of them, and how they are drawn and described."""
