"""Experiment trackers: the metrics of a run, logged with each tracker's own client."""
