"""Sessions, the leader's clock, and many questions or changes in one trip: all that knows no noun of ours."""
