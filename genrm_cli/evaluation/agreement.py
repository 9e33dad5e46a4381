"""Agreement between people, and between people and a judge, beyond chance.

Labels are categories; a tie is one. An item is a pair or a prompt; None means that a rater did not
label it. Read a coefficient beside the share of equal labels and the counts: at 95 % prevalence,
raters that agree on .90 have a kappa of -.05.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

Labels = Sequence[Hashable | None]
"""The labels of one item, one of each rater, always in the same order of raters."""

_RESAMPLES = 1000
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
    both = [(one, other) for one, other in items if one is not None and other is not None]
    if not both:
        return None
    count = len(both)
    equal = sum(one == other for one, other in both) / count
    firsts = Counter(one for one, _ in both)
    seconds = Counter(other for _, other in both)
    chance = math.fsum(firsts[label] * seconds[label] for label in firsts) / count**2
    return None if chance == 1 else (equal - chance) / (1 - chance)


def fleiss_kappa(items: Sequence[Labels]) -> float | None:
    """Return Fleiss' kappa of two raters or more; None if undefined, or if an item lacks a label.

    Source: J. L. Fleiss, Psychological Bulletin 76 (1971) 378.
    """
    if not items or any(label is None for labels in items for label in labels):
        return None
    raters = len(items[0])
    totals: Counter[Hashable] = Counter()
    equal = 0.0
    for labels in items:
        counts = Counter(labels)
        totals.update(counts)
        pairs = sum(count * (count - 1) for count in counts.values())
        equal += pairs / (raters * (raters - 1))
    equal /= len(items)
    chance = math.fsum(count**2 for count in totals.values()) / totals.total() ** 2
    return None if chance == 1 else (equal - chance) / (1 - chance)


def krippendorff_alpha(
    items: Sequence[Labels], order: Sequence[Hashable] | None = None
) -> float | None:
    """Return Krippendorff's alpha; raters may leave items out. None if undefined.

    Args:
        items: those with fewer than two labels do not count.
        order: the categories from lowest to highest, for ordinal labels; None for nominal ones.

    Source: K. Krippendorff, Content Analysis (2nd edition, 2004) chapter 11.
    """
    rated = [[label for label in labels if label is not None] for labels in items]
    rated = [labels for labels in rated if len(labels) > 1]
    names = order or list(dict.fromkeys(label for labels in rated for label in labels))
    if not rated:
        return None
    numbers = {name: number for number, name in enumerate(names)}
    coincidences = np.zeros((len(names), len(names)))
    for labels in rated:
        counts = np.bincount([numbers[label] for label in labels], minlength=len(names))
        pairs = np.outer(counts, counts) - np.diag(counts)
        coincidences += pairs / (len(labels) - 1)
    totals = coincidences.sum(axis=1)
    total = float(totals.sum())
    distances = 1 - np.eye(len(names))
    if order is not None:
        below = np.cumsum(totals) - totals / 2
        distances = (below[:, None] - below[None, :]) ** 2
    expected = float(totals @ distances @ totals)
    if expected <= 0:
        return None
    return 1 - (total - 1) * float((coincidences * distances).sum()) / expected


def agreement_of(
    items: Sequence[Labels], coefficient: Callable[[Sequence[Labels]], float | None], seed: int = 0
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
    rng = np.random.default_rng(seed)
    resamples = []
    for _ in range(_RESAMPLES):
        drawn = rng.integers(len(labelled), size=len(labelled))
        resamples.append(coefficient([labelled[place] for place in drawn]))
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
    return "a rater did not label everything"
