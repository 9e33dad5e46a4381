"""Decide which inputs are due, lease them, and score them in one batch."""
