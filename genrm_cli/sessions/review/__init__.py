"""Review of sessions by experts."""
