"""A simulated judge whose truth is known: what a plan and an estimator make of a number of judge calls."""
