"""Scored lines and the files beside them, read."""
