"""The rules: tables and pure decisions. No input or output, no clock, no randomness."""
