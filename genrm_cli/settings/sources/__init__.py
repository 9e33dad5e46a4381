"""Settings files, and which of them the user trusts."""
