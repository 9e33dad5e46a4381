"""Commands that collect episodes, and let experts review them."""
