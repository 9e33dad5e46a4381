"""Agreement between people, and between people and a judge, beyond chance.

Labels are categories; a tie is one. An item is a pair or a prompt; None means that a rater did not
label it. Read a coefficient beside the share of equal labels and the counts: at 95 % prevalence,
raters that agree on .90 have a kappa of -.05.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Labels = Sequence[Hashable | None]
"""The labels of one item, one of each rater, always in the same order of raters."""

_RESAMPLES = 1000
_SEED = 0  # one result for one input
# More undefined resamples than this: all raters use one category too often to tell.
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """A coefficient with its 95 % interval.

    Attributes:
        value: 1 for perfect agreement, 0 for that by chance; None if undefined.
        low: None where resamples of the items are undefined too often. `high` likewise.
        items: with two labels or more.
        reason: why there is no value; None if there is one.
    """

    value: float | None
    low: float | None
    high: float | None
    items: int
    reason: str | None = None


def cohen_kappa(items: Sequence[Labels]) -> float | None:
    """Return Cohen's kappa of two raters over the items that both labelled; None if undefined.

    Source: J. Cohen, Educational and Psychological Measurement 20 (1960) 37.
    """
    both = [labels for labels in items if None not in labels]
    if not both:
        return None
    equal = sum(one == other for one, other in both) / len(both)
    firsts, seconds = (Counter(column) for column in zip(*both, strict=True))
    chance = sum(firsts[label] * seconds[label] for label in firsts) / len(both) ** 2
    return _beyond(equal, chance)


def krippendorff_alpha(items: Sequence[Labels]) -> float | None:
    """Return Krippendorff's alpha of nominal labels; raters may leave items out, and an item with
    fewer than two labels does not count. None if undefined.

    Source: K. Krippendorff, Content Analysis (2nd edition, 2004) chapter 11.
    """
    counted = [Counter(label for label in labels if label is not None) for labels in items]
    rated = [counts for counts in counted if counts.total() > 1]
    if not rated:
        return None
    totals: Counter[Hashable] = Counter()
    for counts in rated:
        totals.update(counts)
    labels = totals.total()
    equal = math.fsum(_equal_pairs(counts) / (counts.total() - 1) for counts in rated) / labels
    return _beyond(equal, _equal_pairs(totals) / (labels * (labels - 1)))


def _equal_pairs(counts: Counter[Any]) -> int:
    """Return the number of ordered pairs of equal labels."""
    return sum(count * (count - 1) for count in counts.values())


def _beyond(equal: float, chance: float) -> float | None:
    """Return the agreement beyond chance, of that which is possible; None if chance agrees."""
    return None if chance == 1 else (equal - chance) / (1 - chance)


def agreement_of(
    items: Sequence[Labels], coefficient: Callable[[Sequence[Labels]], float | None]
) -> RaterAgreement:
    """Return a coefficient with its interval, by bootstrap over items.

    Pass one entry for each prompt if prompts have several pairs: pairs of one prompt depend on each
    other. In simulation the interval holds the truth in .90 to .96 of runs at 30 items, and in .69
    to .73 if 95 % of the labels are of one category.
    """
    labelled = [labels for labels in items if sum(label is not None for label in labels) > 1]
    value = coefficient(labelled)
    if value is None:
        return RaterAgreement(None, None, None, len(labelled), _why_undefined(labelled))
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(len(labelled), size=(_RESAMPLES, len(labelled)))
    resamples = (coefficient([labelled[place] for place in places]) for places in drawn)
    known = [each for each in resamples if each is not None]
    if len(known) < (1 - _MOST_UNDEFINED) * _RESAMPLES:
        return RaterAgreement(value, None, None, len(labelled))
    low, high = np.quantile(known, [0.025, 0.975]).tolist()
    return RaterAgreement(value, low, high, len(labelled))


def _why_undefined(labelled: Sequence[Labels]) -> str:
    if not labelled:
        return "nothing has two labels"
    if len({label for labels in labelled for label in labels if label is not None}) == 1:
        return "one category only"
    return "chance alone agrees"
