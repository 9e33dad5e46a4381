"""Parse a judge's reply: find its answer, then the verdict in that answer."""
