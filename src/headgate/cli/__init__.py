"""The command: words in, a table or JSON on stdout, talk on stderr, and an exit code that says what happened."""
