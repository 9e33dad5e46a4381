"""What texts are made of: patterns, reasoning, tokens."""
