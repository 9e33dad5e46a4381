"""Decide which inputs are due: list them, look at their outputs, lease them."""
