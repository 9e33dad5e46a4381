"""Answer files of requests through a batch API; `genrm batch`."""
