"""Commands that score rollouts, or inspect them first."""
