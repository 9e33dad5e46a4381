"""Patterns in texts, reasoning, and counts of tokens."""
