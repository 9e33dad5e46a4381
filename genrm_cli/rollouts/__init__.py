"""What an input line means: rollouts, the dialects they are written in, and the groups they form."""
