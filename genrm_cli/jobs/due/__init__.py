"""Decide which inputs are due: list them, read the state of their outputs, lease them."""
