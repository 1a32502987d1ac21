"""Whether an object is valid OCFL: the rules of versions 1.0 and 1.1, each by its published code."""
