"""`genrm serve`: rewards over HTTP for trainers that are running."""
