"""Pairs for the simulated judge."""

import numpy as np


def ordered_pairs(groups, n):
    """Return [G, M] first and second indices of every pair in both orders."""
    first, second = np.nonzero(~np.eye(n, dtype=np.bool_))
    return np.tile(first, (groups, 1)), np.tile(second, (groups, 1))
