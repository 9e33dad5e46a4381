"""Profiles: how each family of judges is prompted, and how its reply is parsed."""
