"""Bringing a store to this version: from nothing, an older Headgate, or the Ensembl locker's tables."""
