"""Formats of TRL's trainers."""
