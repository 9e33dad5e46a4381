"""Split prompts into training and validation, near-duplicates together."""

import binascii
import hashlib
import re
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from genrm_cli.rollouts.rollout import Turn

_WORDS = re.compile(r"\w+")
_SHINGLE_WORDS = 3
_BANDS, _ROWS = 8, 8
_PRIME = (1 << 61) - 1


class PromptSplit:
    """The prompts of an export, by digest; 72 bytes of memory each.

    Prompts are near-duplicates if the sets of their three-word shingles are alike: with 8 bands of 8 minimum hashes,
    a Jaccard index of 0.77 joins two prompts with probability 0.64, one of 0.5 with 0.03, one of 0.9 with 0.99.
    Clusters of joined prompts stay on one side of the split. System prompts do not count, because many tasks share
    one. Time is linear except for sorting.

    Source: A. Z. Broder, On the resemblance and containment of documents (1997); P. Indyk, R. Motwani, STOC 1998.
    """

    def __init__(self) -> None:
        self._digests: dict[int, int] = {}
        self._bands = array("Q")
        generator = np.random.default_rng(0)
        self._factors = generator.integers(1, _PRIME, _BANDS * _ROWS, dtype=np.uint64) | np.uint64(1)
        self._shifts = generator.integers(0, _PRIME, _BANDS * _ROWS, dtype=np.uint64)

    def __contains__(self, digest: int) -> bool:
        return digest in self._digests

    def add(self, digest: int, prompt: Sequence[Turn]) -> None:
        """Add a prompt; known prompts cost nothing."""
        if digest in self._digests:
            return
        self._digests[digest] = len(self._digests)
        smallest = self._signature(prompt).reshape(_BANDS, _ROWS)
        for number, row in enumerate(smallest):
            band = hashlib.blake2b(bytes([number]) + row.tobytes(), digest_size=8).digest()
            self._bands.append(int.from_bytes(band, "little"))

    def validation(self, share: float, seed: int) -> set[int]:
        """Return the digests of the validation prompts: about this share of all, whole clusters at random.

        At least one cluster is chosen if there are two or more, and none if there is only one.
        """

        def rank(members: Sequence[int]) -> bytes:
            return hashlib.blake2b(f"{seed} {min(members)}".encode(), digest_size=8).digest()

        clusters: dict[int, list[int]] = {}
        for digest, root in zip(self._digests, self._roots(), strict=True):
            clusters.setdefault(root, []).append(digest)
        if len(clusters) < 2 or share <= 0:
            return set()
        ordered = sorted(clusters.values(), key=rank)
        wanted, chosen = share * len(self._digests), set[int]()
        for members in ordered[:-1]:
            if chosen and len(chosen) + len(members) / 2 > wanted:
                break
            chosen.update(members)
        return chosen

    def _signature(self, prompt: Sequence[Turn]) -> NDArray[np.uint64]:
        """Return the minima over the shingles of a prompt of 64 hash functions."""
        text = " ".join(turn.text for turn in prompt if turn.role != "system")
        words = _WORDS.findall(text.lower()) or [text]
        shingles = {" ".join(words[at : at + _SHINGLE_WORDS]) for at in range(max(1, len(words) - _SHINGLE_WORDS + 1))}
        hashes = np.fromiter((binascii.crc32(each.encode()) for each in shingles), dtype=np.uint64, count=len(shingles))
        # Multiplication and addition modulo 2**64; the high half is well mixed.
        mixed = (hashes[:, None] * self._factors + self._shifts) >> np.uint64(32)
        smallest: NDArray[np.uint64] = mixed.min(axis=0)
        return smallest

    def _roots(self) -> list[int]:
        """Return a number for each prompt, equal for prompts joined by bands."""
        roots = list(range(len(self._digests)))

        def root_of(number: int) -> int:
            while roots[number] != number:
                roots[number] = roots[roots[number]]
                number = roots[number]
            return number

        for one, other in self._iter_joined():
            roots[root_of(other)] = root_of(one)
        return [root_of(number) for number in range(len(roots))]

    def _iter_joined(self) -> Iterator[tuple[int, int]]:
        bands = np.frombuffer(self._bands, dtype=np.uint64).reshape(-1, _BANDS)
        for band in bands.T:
            rows = np.argsort(band, kind="stable")
            joined = np.flatnonzero(band[rows[1:]] == band[rows[:-1]])
            yield from zip(rows[joined].tolist(), rows[joined + 1].tolist(), strict=True)
