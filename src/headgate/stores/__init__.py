"""Where it is kept. `base` says what every store can do; each folder beside it is one kind of store."""
