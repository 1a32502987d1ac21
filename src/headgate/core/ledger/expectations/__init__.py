"""Expectations: which data ids a dataset should have, and until when each should be READY.

`clocks` turns local times into moments, `model` has the nouns, `parsing` reads an expectation as people write it, and
`reasons` says why a chunk is late.
"""
