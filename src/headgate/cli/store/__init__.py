"""Commands about the store as a whole: init, status, doctor, history, copy, backup and restore."""
