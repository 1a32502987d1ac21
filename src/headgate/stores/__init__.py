"""Storage of all nouns. `ports` declares what every store can do; each folder beside it is one kind of store."""
