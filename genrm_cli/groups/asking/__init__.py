"""Ask the judges about a group: what they are shown, in which stages, what replaces a failure."""
