"""Commands that score rollouts, and those that look at them first."""
