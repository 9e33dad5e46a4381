"""The context of a judge, as its servers show it."""
