"""Facts about the call that is being answered: who acts, by when it returns, and which request it is."""
