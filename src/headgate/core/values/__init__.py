"""Values as people write them and programs read them: names, times, sizes, words, JSON, and texts without secrets."""
