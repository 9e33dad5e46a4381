"""Parse input lines as rollouts: their formats, their groups, and what a judge is shown of them."""
