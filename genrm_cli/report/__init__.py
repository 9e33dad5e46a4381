"""A page about scored rollouts for a person to look at: one file, no server, no network."""
