"""Parse input lines as rollouts: formats, groups, and views for a judge."""
