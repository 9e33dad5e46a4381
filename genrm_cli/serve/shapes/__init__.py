"""The wire shapes that the server speaks, one module each with its routes."""
