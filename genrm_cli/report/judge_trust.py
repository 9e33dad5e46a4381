"""Assess how far to trust the rewards of a run: an answer in words, with its reasons."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from genrm_cli.metrics.group_measures import NOISY_BELOW, STRONG_LENGTH, reliability_word
from genrm_cli.metrics.plan_reliability import remedy_text
from genrm_cli.report.report_figures import Mean, RunFigures, Share

Weight = Literal["no", "care", "fine", "unknown"]
# Conventions, not measured: up to 1 in 20, a defect is left to the figures of the page; above 1 in
# 4, the rest is no fair sample of the rollouts.
_MANY = 0.25
_SOME = 0.05
_FLIPS = 0.25  # half of what a judge flips that draws its verdicts at random
_LEANS = 0.05  # of the first place, beyond its interval
_PROBES = {
    "skipped": "The judge was not probed: nothing shows that it prefers a right answer to "
    "nonsense.",
    "incomplete": "The probe of the judge is incomplete: an endpoint was busy or down.",
}
_ANSWERS = {
    "no": "Not in its current state",
    "care": "With care: look at the points below first",
    "unknown": "It cannot be told yet: score more groups together",
    "fine": "Nothing measured here speaks against it",
}


@dataclass(frozen=True, slots=True)
class Ground:
    """One reason for the answer: its weight, its text, and the tag of the groups behind it."""

    weight: Weight
    text: str
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """The answer and its reasons, the heaviest first."""

    weight: Weight
    answer: str
    reasons: tuple[Ground, ...]


def judge_trust(figures: RunFigures, *, has_comparisons: bool) -> Trust:
    """Return how far the rewards of a run can be trusted."""
    order = {"no": 0, "care": 1, "unknown": 2, "fine": 3}
    reasons = sorted(_iter_reasons(figures, has_comparisons), key=lambda each: order[each.weight])
    # Other figures may be missing; without the reliability, nobody knows whether rewards are noise.
    heaviest = (
        each.weight
        for each in reasons
        if each.weight in ("no", "care") or (each.weight == "unknown" and each.tag == "noisy")
    )
    weight: Weight = next(heaviest, "fine")
    return Trust(weight, _ANSWERS[weight], tuple(reasons))


def _iter_reasons(figures: RunFigures, has_comparisons: bool) -> Iterator[Ground]:
    if figures.is_baseline:
        yield Ground(
            "no", "The built-in lexical baseline judged this, not a reward model.", "baseline"
        )
    if figures.partial is not None:
        yield Ground("no", f"Partial: {figures.partial}.", "unscored")
    if figures.probe in _PROBES:
        yield Ground("care", _PROBES[figures.probe])
    if not figures.scored:
        yield Ground("no", "No rollout has a reward.")
    yield from _unscored(figures)
    yield from _spread(figures)
    yield from _reliability(figures)
    if not has_comparisons:
        yield Ground(
            "unknown",
            "No comparisons file next to the scored lines: the judge's replies are unknown.",
        )
    elif figures.failed.of or figures.not_asked:
        yield from _judging(figures)
    yield from _length(figures.length_effect)
    caused_failures = figures.caused_failures.count
    repeated = figures.repeated.count
    if caused_failures:
        yield Ground(
            "care",
            f"{caused_failures:,} rollouts make requests to the judge fail.",
            "caused_failures",
        )
    if repeated:
        yield Ground(
            "care", f"{repeated:,} responses duplicate another response in their group.", "repeated"
        )


def _weight_of(share: float, many: float) -> Weight:
    """Return the weight of a defect of this share, which refuses trust above `many`."""
    if share > many:
        return "no"
    return "care" if share > _SOME else "fine"


def _unscored(figures: RunFigures) -> Iterator[Ground]:
    missing = figures.rollouts - figures.scored
    if missing:
        share = missing / figures.rollouts
        yield Ground(
            _weight_of(share, _MANY),
            f"{missing:,} of {figures.rollouts:,} rollouts ({share:.1%}) have no reward.",
            "unscored",
        )
    else:
        yield Ground("fine", "Every rollout has a reward.")


def _spread(figures: RunFigures) -> Iterator[Ground]:
    if figures.flat.value is None:
        yield Ground("unknown", "Spread within groups: not measurable, no group has two rewards.")
    elif figures.flat.count:
        text = (
            f"In {figures.flat.count:,} of {figures.flat.of:,} groups all rewards are equal: "
            "nothing to learn there."
        )
        yield Ground(_weight_of(figures.flat.value, 0.5), text, "no-spread")


_RELIABILITY: dict[str, tuple[Weight, str]] = {
    "high": ("fine", "are mostly real"),
    "fair": ("care", "are more real than noise"),
    "low": ("no", "may be mostly noise"),
    "unknown": ("unknown", "may be mostly real or mostly noise; score more groups together"),
}


def _reliability(figures: RunFigures) -> Iterator[Ground]:
    mean = figures.reliability.mean
    if mean is None:
        why = figures.unmeasured or "no metrics file says how it was compared"
        yield Ground("unknown", f"Signal or noise: not measurable: {why}.", "noisy")
        return
    low = figures.reliability.low
    high = figures.reliability.high
    ends = None if low is None or high is None else (low, high)
    word = reliability_word(ends)
    weight, words = _RELIABILITY[word]
    if word in ("low", "fair"):
        is_panel = figures.panel_agreement is not None
        words += f"; {remedy_text(figures.rings_needed, mean, is_panel=is_panel)}"
    interval = "" if ends is None else f" ({low:.2f} to {high:.2f})"
    yield Ground(
        weight,
        f"Mean reliability {mean:.2f}{interval}: differences between rewards {words}.",
        "noisy",
    )
    if (figures.noisy.value or 0.0) > _SOME and weight in ("fine", "care"):
        noisy = f"{figures.noisy.count:,} of {figures.noisy.of:,} groups"
        text = f"{noisy} are mostly noise (reliability below {NOISY_BELOW})."
        yield Ground("care", text, "noisy")


def _judging(figures: RunFigures) -> Iterator[Ground]:
    if figures.not_asked:
        yield Ground(
            "care", f"{figures.not_asked:,} planned comparisons were not asked.", "not-asked"
        )
    failed = figures.failed
    if failed.value:
        weight = _weight_of(failed.value, _MANY)
        yield Ground(weight, f"{_share_text(failed)} comparisons have no verdict.", "failed")
    first = figures.first_place
    if first.value is not None and first.low is not None and first.high is not None:
        leans = first.low > 0.5 + _LEANS or first.high < 0.5 - _LEANS
        side = "first" if first.value >= 0.5 else "second"
        text = (
            f"The response shown {side} wins {max(first.value, 1 - first.value):.1%} of "
            f"{first.of:,} verdicts"
        )
        yield Ground("care" if leans else "fine", f"{text}; 50% is fair.")
    flips = figures.flips
    if flips.value is None:
        yield Ground(
            "unknown",
            "Flips when the order is swapped: not measurable, no pair was judged in both orders.",
        )
    elif flips.count:
        text = f"{_share_text(flips)} pairs flip when the order is swapped."
        yield Ground("care" if flips.value > _FLIPS else "fine", text, "flips")


def _length(effect: Mean) -> Iterator[Ground]:
    if effect.mean is None:
        yield Ground(
            "unknown",
            "Length effect: not measurable, no group has three rewards and lengths that differ.",
        )
        return
    sure = (
        effect.low is not None and effect.high is not None and (effect.low > 0 or effect.high < 0)
    )
    strong = abs(effect.mean) > STRONG_LENGTH and sure
    direction = "longer" if effect.mean > 0 else "shorter"
    text = f"Reward and length correlate by {effect.mean:+.2f} within groups"
    yield Ground(
        "care" if strong else "fine",
        f"{text}: {direction} responses win." if strong else f"{text}.",
        "long-wins",
    )


def _share_text(share: Share) -> str:
    return f"{share.count:,} of {share.of:,} ({share.value:.1%})"
