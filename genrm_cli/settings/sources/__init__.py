"""Where settings files come from, and which of them the user trusts."""
