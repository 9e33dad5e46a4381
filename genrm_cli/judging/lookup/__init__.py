"""Find profiles and rubric sets by name: the built-in ones, loaded on first use, and the user's own files."""
