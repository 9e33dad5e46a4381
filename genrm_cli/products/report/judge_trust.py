"""Assess how far to trust the rewards of a run: an answer in words, with its reasons."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from genrm_cli.errors import counted
from genrm_cli.metrics.group_measures import NOISY_BELOW, STRONG_LENGTH
from genrm_cli.metrics.running_stats import Estimated
from genrm_cli.products.report.report_figures import Mean, RunFigures, Share, share_of

Weight = Literal["no", "care", "fine", "unknown"]
# Conventions, not measured: up to 1 in 20, a defect is left to the figures of the page; above 1 in
# 4, the rest is no fair sample of the rollouts.
_MANY = 0.25
_SOME = 0.05
_FLIPS = 0.25  # half of what a judge flips that draws its verdicts at random
_LEANS = 0.05  # of the first place
_PERCENT_FROM = 20  # of fewer, a percentage claims more than the count
_PROBES = {
    "skipped": "The judge was not probed: nothing shows that it prefers a right answer to "
    "nonsense.",
    "incomplete": "The probe of the judge is incomplete: an endpoint was busy or down.",
}
# From the heaviest on.
_ANSWERS: dict[Weight, str] = {
    "no": "Not in its current state",
    "care": "With care: look at the points below first",
    "unknown": "It cannot be told yet",
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
    reasons = list(_of_rewards(figures))
    if not has_comparisons:
        reasons += _unknown(
            "No comparisons file next to the scored lines: the judge's replies are unknown."
        )
    elif figures.failed.of or figures.not_asked:
        reasons += _of_verdicts(figures)
    reasons += _of_length(figures.length_effect)
    reasons.sort(key=lambda each: list(_ANSWERS).index(each.weight))
    # Other figures may be missing; without the reliability, nobody knows whether rewards are noise.
    heaviest = (
        each.weight
        for each in reasons
        if each.weight in ("no", "care") or (each.weight == "unknown" and each.tag == "noisy")
    )
    weight: Weight = next(heaviest, "fine")
    return Trust(weight, _ANSWERS[weight], tuple(reasons))


def _unknown(text: str) -> Iterator[Ground]:
    yield Ground("unknown", text)


def _weight_of(share: float, many: float) -> Weight:
    """Return the weight of a defect of this share, which refuses trust above `many`."""
    if share > many:
        return "no"
    return "care" if share > _SOME else "fine"


def _weight_around(neutral: float, limit: float, of: Estimated) -> Weight:
    """Return `fine` if a figure is within a limit around the neutral value at both ends of its
    interval, `care` if it is beyond and surely not neutral, else `unknown`.
    """
    if of.value is None or of.low is None or of.high is None:
        return "unknown"
    if max(neutral - of.low, of.high - neutral) <= limit:
        return "fine"
    is_sure = of.low > neutral or of.high < neutral
    return "care" if is_sure and abs(of.value - neutral) > limit else "unknown"


def _of_rewards(figures: RunFigures) -> Iterator[Ground]:
    if figures.is_baseline:
        text = "The built-in lexical baseline judged this, not a reward model."
        yield Ground("no", text, "baseline")
    if figures.partial is not None:
        yield Ground("no", f"Partial: {figures.partial}.", "unscored")
    if figures.probe in _PROBES:
        yield Ground("care", _PROBES[figures.probe])
    missing = figures.rollouts - figures.scored
    if not figures.scored:
        yield Ground("no", "No rollout has a reward.", "unscored")
    elif missing:
        share = share_of(missing, figures.rollouts)
        text = f"{_share_text(share, 'rollouts')} have no reward."
        yield Ground(_weight_of(missing / figures.rollouts, _MANY), text, "unscored")
    else:
        yield Ground("fine", "Every rollout has a reward.")
    flat = figures.flat
    if flat.value is None:
        yield from _unknown("Spread within groups: not measurable, no group has two rewards.")
    elif flat.count:
        text = f"All rewards are equal in {_share_text(flat, 'groups')}: nothing to learn there."
        yield Ground(_weight_of(flat.value, 0.5), text, "no-spread")
    yield from _of_reliability(figures)
    if repeated := figures.repeated.count:
        who = counted(repeated, "response duplicates", "responses duplicate")
        yield Ground("care", f"{who} another response in the group.", "repeated")


_RELIABILITY: dict[str, tuple[Weight, str]] = {
    "high": ("fine", "are mostly real"),
    "fair": ("care", "are more real than noise"),
    "low": ("no", "may be mostly noise"),
    "unknown": ("unknown", "may be mostly real or mostly noise"),
}


def _of_reliability(figures: RunFigures) -> Iterator[Ground]:
    account = figures.account
    if account is None or account.reliability is None:
        why = "no metrics file says how it was compared" if account is None else account.advice
        yield Ground("unknown", f"Signal or noise: not measurable: {why}.", "noisy")
        return
    weight, words = _RELIABILITY[account.word]
    advice = f"; {account.advice}" if account.advice else ""
    text = f"Mean {account.figure} {account.found}: differences between rewards {words}{advice}."
    yield Ground(weight, text, "noisy")
    noisy = figures.noisy
    if (noisy.value or 0.0) > _SOME and weight in ("fine", "care"):
        text = f"{_share_text(noisy, 'groups')} are mostly noise: reliability below {NOISY_BELOW}."
        yield Ground("care", text, "noisy")


def _of_verdicts(figures: RunFigures) -> Iterator[Ground]:
    if figures.not_asked:
        text = f"{figures.not_asked:,} planned comparisons were not asked."
        yield Ground("care", text, "not-asked")
    failed = figures.failed
    if failed.value:
        text = f"{_share_text(failed, 'comparisons')} have no verdict."
        yield Ground(_weight_of(failed.value, _MANY), text, "failed")
    first = figures.first_place
    if first.value is not None:
        weight = _weight_around(0.5, _LEANS, first)
        text = f"The response shown first wins {_share_text(first, 'verdicts')}; 50 % is fair."
        yield Ground(weight, text)
    flips = figures.flips
    if flips.value is None:
        yield from _unknown(
            "Flips when the order is swapped: not measurable, no pair was judged in both orders."
        )
    elif flips.count:
        text = f"{_share_text(flips, 'pairs')} flip when the order is swapped."
        yield Ground(_weight_around(0.0, _FLIPS, flips), text, "flips")


def _of_length(effect: Mean) -> Iterator[Ground]:
    if effect.value is None:
        yield from _unknown(
            "Length effect: not measurable, no group has three rewards and lengths that differ."
        )
        return
    weight = _weight_around(0.0, STRONG_LENGTH, effect)
    more = ""
    if weight == "care":
        more = f": {'longer' if effect.value > 0 else 'shorter'} responses win"
    text = f"Reward and length correlate by {effect.text('+.2f')} within groups{more}."
    yield Ground(weight, text, "long-wins")


def _share_text(share: Share, things: str) -> str:
    """Return a count of all; from twenty on with its percentage and interval."""
    text = f"{share.count:,} of {share.of:,} {things}"
    if share.of < _PERCENT_FROM or share.value is None:
        return text
    low, high = (100 * (each or 0.0) for each in (share.low, share.high))
    return f"{text} ({100 * share.value:.1f} %, {low:.1f} to {high:.1f} %)"
