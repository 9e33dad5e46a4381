"""Linear algebra for large groups: memory and time linear in comparisons, no n × n array.

Linear systems are solved by conjugate gradients. Diagonals and traces of matrices that are only known as products
are estimated from 64 probing vectors.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices, binned_sums

MAX_DENSE = 128  # rollouts; above it, dense inverses take longer than conjugate gradients with all probes
EXACT, ROUGH = 1e-14, 1e-7  # residuals, relative to the right side; probing errors are far above the rough one
_PROBES = 64
_PROBES_AT_ONCE = 16  # bounds memory
_COLOURING_ROUNDS = 16
_SEED = 20_240_607
_MAX_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class PairMatrix:
    """The symmetric n × n matrix diag(d) + Σ w (e_i e_j' + e_j e_i') - u u', a sum over M pairs (i, j).

    Attributes:
        diagonal: d [n].
        first: i [M].
        second: j [M].
        weights: w [M].
        rank_one: u [n].
    """

    diagonal: Floats
    first: Indices
    second: Indices
    weights: Floats
    rank_one: Floats

    def __matmul__(self, vectors: Floats) -> Floats:
        """Multiply with [n, r] vectors."""
        product: Floats = self.diagonal[:, None] * vectors - np.outer(self.rank_one, self.rank_one @ vectors)
        for column, values in zip(product.T, np.ascontiguousarray(vectors.T), strict=True):
            column += binned_sums(self.weights * values[self.second], self.first, len(values))
            column += binned_sums(self.weights * values[self.first], self.second, len(values))
        return product

    def solve(self, right: Floats, tolerance: float) -> Floats:
        """Solve for each column of [n, r] right sides; the matrix must be positive definite.

        Args:
            right: the right sides.
            tolerance: of the residual's norm, relative to that of the right side.

        Source: M. R. Hestenes and E. Stiefel, J. Res. Natl. Bur. Stand. 49 (1952) 409; Jacobi preconditioner.
        """
        scale = (1 / (self.diagonal - self.rank_one**2))[:, None]
        solution, residual = np.zeros_like(right), right.copy()
        conditioned = scale * residual
        direction, energy = conditioned, _dots(residual, conditioned)
        goal = tolerance**2 * _dots(right, right)
        for _ in range(_MAX_STEPS):
            active = _dots(residual, residual) > goal
            if not active.any():
                break
            image = self @ direction
            step = _ratios(energy, _dots(direction, image), active)
            solution += step * direction
            residual -= step * image
            conditioned = scale * residual
            energy, previous = _dots(residual, conditioned), energy
            direction = conditioned + _ratios(energy, previous, active) * direction
        return solution


def iter_probes(n: int, first: Indices, second: Indices) -> Iterator[Floats]:
    """Yield probing vectors [n, r] of +1 and -1, in all 64 columns, the same in every run.

    For probes z of a matrix F, the mean of z * (F z) estimates the diagonal of F: an entry F_ij adds an error only
    where i and j have one colour. Rollouts that were compared have different colours as far as 64 colours allow.
    Measured against dense inverses for n = 100 to 1,000: standard errors are right to 0.2 to 0.9 % (least squares) and
    0.5 to 2 % (Bradley-Terry) in the root mean square, without bias; reliabilities to 0.002.

    Source: C. Bekas, E. Kokiopoulou, Y. Saad, Applied Numerical Mathematics 57 (2007) 1214 (Hadamard vectors for the
    diagonal of a matrix); J. M. Tang, Y. Saad, Numer. Linear Algebra Appl. 19 (2012) 485 (colouring).
    """
    generator = np.random.default_rng(_SEED)
    colours = generator.integers(_PROBES, size=n)
    for _ in range(_COLOURING_ROUNDS):
        clashing = np.unique(first[colours[first] == colours[second]])
        colours[clashing] = generator.integers(_PROBES, size=len(clashing))
    signs = np.where(generator.random(n) < 0.5, -1.0, 1.0)
    hadamard = np.ones((1, 1))
    while len(hadamard) < _PROBES:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    for start in range(0, _PROBES, _PROBES_AT_ONCE):
        yield signs[:, None] * hadamard[colours, start : start + _PROBES_AT_ONCE]


def probed(vectors: Floats, products: Floats) -> Floats:
    """Return [n] the share of these probes in the estimate of the diagonal of the matrix that they were multiplied by.

    Args:
        vectors: some columns of `iter_probes`.
        products: the matrix times these.
    """
    shares: Floats = (vectors * products).sum(axis=1) / _PROBES
    return shares


def _dots(a: Floats, b: Floats) -> Floats:
    """Return [r] the products of the columns."""
    return np.asarray(np.einsum("nr,nr->r", a, b), dtype=np.float64)


def _ratios(above: Floats, below: Floats, active: Flags) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=active & (below > 0))
