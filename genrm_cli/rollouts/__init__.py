"""Understand input lines as rollouts: their formats, the groups they form, and what a judge is shown of them."""
