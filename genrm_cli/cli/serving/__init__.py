"""The command that serves rewards to running trainers."""
