"""Find profiles and rubric sets by name: the built-in ones, loaded when used, and the user's own files."""
