"""Metrics of a run: typed, versioned, mergeable."""
