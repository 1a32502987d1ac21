"""Tests: each folder proves one thing on the real servers, processes and browsers; ARCHITECTURE.md lists them."""
