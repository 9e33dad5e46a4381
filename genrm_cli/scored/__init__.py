"""The only reader and writer of scored lines, comparison records and run records."""
