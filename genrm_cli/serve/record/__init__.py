"""Served groups as files: the same that `genrm score` writes."""
