"""A page about scored rollouts for people: one file, no server, no network."""
