"""How a store becomes one of this version: from nothing, from an older Headgate, or from seed 002's tables."""
