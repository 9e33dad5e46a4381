"""Formats of trainers and their environments."""
