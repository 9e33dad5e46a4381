"""Assess how far to trust the rewards of a run: an answer in words, with its reasons."""

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from msgspec import Struct

from genrm_cli.errors import counted
from genrm_cli.metrics.figures import FigureForm
from genrm_cli.metrics.group_measures import EFFECT, NOISY_BELOW, STRONG_LENGTH
from genrm_cli.metrics.running_stats import Estimated, Share, share_of
from genrm_cli.scored.run_record import RunRecord, RunTotals, TrainOnIt
from genrm_cli.verdicts import ProbeResult

Weight = Literal["no", "care", "fine", "unknown"]
# Conventions, not measured: up to 1 in 20, a defect is left to the figures of the page; above 1 in
# 4, the rest is no fair sample of the rollouts.
_MANY = 0.25
_SOME = 0.05
_FLIPS = 0.25  # half of what a judge flips that draws its verdicts at random
_LEANS = 0.05  # of the first place
SHARE = FigureForm(1, (_SOME, _FLIPS, 0.5 - _LEANS, 0.5, 0.5 + _LEANS), unit=100)
"""Of groups, rollouts, comparisons, verdicts or pairs."""
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
_WORDS: dict[Weight, TrainOnIt] = {
    "no": "no",
    "care": "with care",
    "unknown": "unknown",
    "fine": "yes",
}


class TrainingFacts(Struct, frozen=True):
    """The facts of a run that decide how far to trust it.

    Attributes:
        partial: why it is incomplete; None if it is complete.
        probe: the worst result of the probes of its judges; None without verdicts or a metrics
            file.
        flat: groups of equal rewards.
        noisy: groups whose reliability is known and below `NOISY_BELOW`.
        copies: responses equal to another of their group.
        figure, found, halves, word, advice, contradiction: see `RunAccount`; without a metrics
            file, nothing is found.
    """

    is_baseline: bool
    partial: str | None
    probe: ProbeResult | None
    rollouts: int
    scored: int
    flat: Share
    noisy: Share
    copies: int
    failed: Share
    not_asked: int
    first_place: Share
    flips: Share
    length_effect: Estimated
    figure: str = "reliability"
    found: str = "-"
    halves: str = ""
    word: str = "unknown"
    advice: str = "no metrics file says how it was compared"
    contradiction: str = ""


SAID = ("figure", "found", "halves", "word", "advice", "contradiction")
"""The reliability of a run, in the words of its account."""


class Ground(Struct, frozen=True):
    """One reason for the answer: its weight, its text, and the tag of the groups behind it."""

    weight: Weight
    text: str
    tag: str | None = None


class Trust(Struct, frozen=True):
    """The answer and its reasons, the heaviest first."""

    weight: Weight
    answer: str
    reasons: tuple[Ground, ...]

    @property
    def word(self) -> TrainOnIt:
        """The answer in a word or two: `yes`, `with care`, `no` or `unknown`."""
        return _WORDS[self.weight]

    @property
    def because(self) -> tuple[str, ...]:
        """The texts of the reasons that have the weight of the answer, and that of an unknown
        reliability whatever weighs more: it may be the next to fail. None for `yes`.
        """
        if self.weight == "fine":
            return ()
        return tuple(
            each.text
            for each in self.reasons
            if each.weight == self.weight or (each.weight == "unknown" and each.tag == "noisy")
        )


def judge_trust(facts: TrainingFacts, *, has_comparisons: bool) -> Trust:
    """Return how far the rewards of a run can be trusted."""
    reasons = list(_of_rewards(facts))
    if not has_comparisons:
        reasons += _unknown(
            "No comparisons file next to the scored lines: the judge's replies are unknown."
        )
    elif facts.failed.of or facts.not_asked:
        reasons += _of_verdicts(facts)
    reasons += _of_length(facts.length_effect)
    reasons.sort(key=lambda each: list(_ANSWERS).index(each.weight))
    # Other figures may be missing; without the reliability, rewards may be noise.
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


def _of_rewards(facts: TrainingFacts) -> Iterator[Ground]:
    if facts.is_baseline:
        text = "The built-in lexical baseline judged this, not a reward model."
        yield Ground("no", text, "baseline")
    if facts.partial is not None:
        yield Ground("no", f"Partial: {facts.partial}.", "unscored")
    if facts.probe in _PROBES:
        yield Ground("care", _PROBES[facts.probe])
    missing = facts.rollouts - facts.scored
    if not facts.scored:
        yield Ground("no", "No rollout has a reward.", "unscored")
    elif missing:
        share = share_of(missing, facts.rollouts)
        text = f"{_share_text(share, 'rollouts')} {_verb(share, 'has', 'have')} no reward."
        yield Ground(_weight_of(missing / facts.rollouts, _MANY), text, "unscored")
    else:
        yield Ground("fine", "Every rollout has a reward.")
    flat = facts.flat
    if flat.value is None:
        yield from _unknown("Spread within groups: not measurable, no group has two rewards.")
    elif flat.count:
        text = f"All rewards are equal in {_share_text(flat, 'groups')}: nothing to learn there."
        yield Ground(_weight_of(flat.value, 0.5), text, "no-spread")
    yield from _of_reliability(facts)
    if facts.copies:
        who = counted(facts.copies, "response is", "responses are")
        yield Ground("care", f"{who} equal to another of the group.", "repeated")


_RELIABILITY: dict[str, tuple[Weight, str]] = {
    "high": ("fine", "are mostly real"),
    "fair": ("care", "are more real than noise"),
    "low": ("no", "may be mostly noise"),
    "unknown": ("unknown", "may be mostly real or mostly noise"),
}


def _of_reliability(facts: TrainingFacts) -> Iterator[Ground]:
    if facts.found == "-":
        yield Ground("unknown", f"Signal or noise: not measurable: {facts.advice}.", "noisy")
        return
    weight, words = _RELIABILITY[facts.word]
    advice = f"; {facts.advice}" if facts.advice else ""
    found = f"{facts.found}, {facts.halves}" if facts.halves else facts.found
    text = f"Mean {facts.figure} {found}: differences between rewards {words}{advice}."
    yield Ground(weight, text, "noisy")
    if facts.contradiction:
        yield Ground("care", f"{facts.contradiction}.", "noisy")
    noisy = facts.noisy
    if (noisy.value or 0.0) > _SOME and weight in ("fine", "care"):
        verb = _verb(noisy, "is", "are")
        share = _share_text(noisy, "groups")
        text = f"{share} {verb} mostly noise: reliability below {NOISY_BELOW}."
        yield Ground("care", text, "noisy")


def _of_verdicts(facts: TrainingFacts) -> Iterator[Ground]:
    if facts.not_asked:
        text = f"{facts.not_asked:,} planned comparisons were not asked."
        yield Ground("care", text, "not-asked")
    failed = facts.failed
    if failed.value:
        text = f"{_share_text(failed, 'comparisons')} {_verb(failed, 'has', 'have')} no verdict."
        yield Ground(_weight_of(failed.value, _MANY), text, "failed")
    first = facts.first_place
    if first.value is not None:
        weight = _weight_around(0.5, _LEANS, first)
        text = f"The response shown first wins {_share_text(first, 'verdicts')}; 50 % is fair."
        yield Ground(weight, text)
    flips = facts.flips
    if flips.value is None:
        yield from _unknown(
            "Flips when the order is swapped: not measurable, no pair was judged in both orders."
        )
    elif flips.count:
        text = f"{_share_text(flips, 'pairs')} flip when the order is swapped."
        yield Ground(_weight_around(0.0, _FLIPS, flips), text, "flips")


def _of_length(effect: Estimated) -> Iterator[Ground]:
    if effect.value is None:
        yield from _unknown(
            "Length effect: not measurable, no group has three rewards and lengths that differ."
        )
        return
    weight = _weight_around(0.0, STRONG_LENGTH, effect)
    more = ""
    if weight == "care":
        more = f": {'longer' if effect.value > 0 else 'shorter'} responses win"
    text = f"Reward and length correlate by {effect.text(EFFECT)} within groups{more}."
    yield Ground(weight, text, "long-wins")


def _share_text(share: Share, things: str) -> str:
    """Return a count of all; from twenty on with its percentage and interval."""
    text = f"{share.count:,} of {share.of:,} {things}"
    if share.of < _PERCENT_FROM or share.value is None:
        return text
    return f"{text} ({SHARE.number(share.value)} %, {SHARE.ends(share.low, share.high)} %)"


def _verb(share: Share, one: str, more: str) -> str:
    return one if share.count == 1 else more


def why_partial(totals: RunTotals) -> str | None:
    """Return why a run is incomplete; None if it is complete."""
    if totals.stopped_by is not None:
        return f"{totals.stopped_by} stopped the run"
    if totals.limit is not None and totals.groups_left_out:
        return f"a trial of {totals.limit} groups (limit)"
    is_cut = isinstance(totals, RunRecord) and totals.partial
    return "the run was stopped before its end" if is_cut else None


def worst_probe(totals: RunTotals) -> ProbeResult | None:
    """Return the worst result of the probes: a panel is as sure as the judge that was probed
    worst.
    """
    probes = [judge.probe for judge in totals.judge.judges]
    return next((each for each in get_args(ProbeResult)[::-1] if each in probes), None)


def facts_of_totals(totals: RunTotals, said: Mapping[str, str]) -> TrainingFacts:
    """Return what the totals of a run say, and the account of its reliability."""
    failures = {**totals.failures_by_kind}
    not_asked = failures.pop("not_asked", 0)
    failed = sum(failures.values())
    compared = sum(count for size, count in totals.group_sizes.items() if int(size) > 1)
    first = totals.first_place_win_rate
    answered = totals.verdicts + totals.journal_hits
    # None for lists, whose answers prefer no first of two.
    decided = 0 if first is None else round(answered * (1 - (totals.tie_rate or 0.0)))
    low, high = totals.length_effect_interval or (None, None)
    return TrainingFacts(
        is_baseline=totals.judge.is_baseline,
        partial=why_partial(totals),
        probe=worst_probe(totals),
        rollouts=totals.rollouts,
        scored=totals.reward.count,
        flat=share_of(totals.groups_without_spread, max(compared - totals.groups_left_out, 0)),
        noisy=share_of(totals.groups_noisy, totals.reliability.count),
        copies=totals.copies,
        failed=share_of(failed, totals.comparisons_planned - not_asked),
        not_asked=not_asked,
        first_place=share_of(round((first or 0.0) * decided), decided),
        flips=share_of(
            round((totals.flip_rate or 0.0) * totals.pairs_in_both_orders),
            totals.pairs_in_both_orders,
        ),
        length_effect=Estimated(totals.length_effect.mean, low, high),
        **said,
    )
