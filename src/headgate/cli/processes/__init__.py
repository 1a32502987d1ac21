"""Commands of the user that we run: started, watched, and ended in time."""
