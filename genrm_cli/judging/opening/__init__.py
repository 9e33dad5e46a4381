"""Open the judges of a run: endpoints, limits, budget, the test before the first request."""
