"""Sessions, the leader's clock, and batching of many reads or changes in one trip: everything that is independent of
our nouns.
"""
