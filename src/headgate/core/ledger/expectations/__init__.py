"""Expectations: which data ids a dataset should have, and when each should be READY.

`clocks` converts local times, `model` has the nouns, `parsing` reads the definition of an expectation, and `reasons`
explains why a chunk is late.
"""
