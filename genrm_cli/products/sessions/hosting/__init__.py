"""Sessions over HTTP, for agents that run the loop themselves."""
