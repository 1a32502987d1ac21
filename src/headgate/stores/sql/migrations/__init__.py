"""How a store becomes one of this version: from nothing, an older Headgate, or the Ensembl locker's tables."""
