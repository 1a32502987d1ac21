"""The command line: arguments in, a table or JSON on stdout, messages on stderr, and an exit code for each kind of
outcome.
"""
