"""Validation of OCFL objects: the rules of versions 1.0 and 1.1, each with its published code."""
