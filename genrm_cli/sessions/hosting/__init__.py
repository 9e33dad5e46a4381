"""Episodes of an environment for agents that keep the loop themselves."""
