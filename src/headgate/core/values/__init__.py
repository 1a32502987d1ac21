"""Values as people write them and programs read them: names, times, sizes, words, JSON, and text without secrets."""
