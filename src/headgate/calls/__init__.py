"""The context of the current call: who acts, by when it returns, and which request it belongs to."""
