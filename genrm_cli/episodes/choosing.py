"""Choose from prepared sentences, the same with the same seed."""

from collections.abc import Sequence
from hashlib import blake2b


def choose_unsaid(lines: Sequence[str], said: str, seed: str) -> str:
    """Return one of the lines that `said` does not hold; of all lines if it holds all of them."""
    left = [line for line in lines if line not in said] or lines
    return left[int.from_bytes(blake2b(seed.encode(), digest_size=4).digest()) % len(left)]
