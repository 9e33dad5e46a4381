"""Measure the signal in a scored group; "not measurable" is None, never 0."""

import string
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genrm_cli.metrics.running_stats import LEAST_SPREAD, CoSpread
from genrm_cli.metrics.verdict_counts import VerdictCounts
from genrm_cli.pairing import Comparison
from genrm_cli.rollouts.rollout import words_of
from genrm_cli.scored.lines import ComparisonRecord, ScoredGroup
from genrm_cli.verdicts import FailureKind, Verdict, preference

Floats = npt.NDArray[np.float64]

_MAX_DENSE = 256  # rollouts; the fit and the triples would be slow for more
_LEAST_POINTS = 3  # for a correlation
_PUNCTUATION = string.punctuation.encode()
_QUOTES = "’‘“”…"
_MARKUP = ("**", "\n#", "\n- ", "\n* ", "\n1.", "```", "\n|")


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One group in numbers.

    Attributes:
        prompt: beginning of its last turn.
        rewards: by index, None for an unscored one.
        lengths_chars: of the words of each response.
        spread: population standard deviation of the rewards; None for fewer than two.
        residual: unexplained part of the judge's preferences that no set of levels explains, per degree of freedom:
            0 = they fit one order exactly, 1 = no order explains more than chance.
        length_effect: Pearson correlation of reward and length; None below three rewards.
        markup_effect: likewise of reward and the number of marks of Markdown.
        triples: of rollouts whose three pairs were all judged; `circular` prefer a to b, b to c and c to a.
        asked: requests to judges, those for verdicts on pairs and for grades alike.
        failures: requests without an answer, by kind.
        not_asked: requests that were planned but not made.
        replies: answered requests whose replies are known.
        unscored: rollouts without a reward, by the code of the reason.
        duplicates: responses equal to an earlier one except for case, spaces and punctuation.
        varying: components that differ between its rollouts.
    """

    key: str
    prompt: str
    size: int
    rewards: tuple[float | None, ...]
    lengths_chars: tuple[int, ...]
    spread: float | None
    reliability: float | None
    residual: float | None
    length_effect: float | None
    markup_effect: float | None
    verdicts: VerdictCounts
    triples: int
    circular: int
    asked: int
    failures: Counter[str]
    not_asked: int
    replies: int
    unscored: Counter[str]
    duplicates: int
    varying: tuple[str, ...]
    is_baseline: bool


def measure_group(group: ScoredGroup, prompt: str) -> GroupFigures:
    """Return the figures of a group; `prompt` is the beginning of its prompt."""
    words = [words_of(each.rollout.response or ()) for each in group.members]
    rewards = tuple(each.line.reward for each in group.members)
    lengths = tuple(map(len, words))
    known = [number for number, reward in enumerate(rewards) if reward is not None]
    scores = [reward for reward in rewards if reward is not None]
    pairs = [each for each in group.comparisons if each.is_pair and each.verdict is not None]
    leads = [preference(each.verdict) for each in pairs if each.verdict is not None]
    triples, circular = _triples(_pair_means(pairs), len(rewards))
    failures = Counter(each.failure.kind.value for each in group.comparisons if each.failure is not None)
    said = [plain for text in words if (plain := _plain(text))]
    not_asked = failures.pop(FailureKind.NOT_ASKED.value, 0)
    return GroupFigures(
        group.key,
        prompt,
        len(rewards),
        rewards,
        lengths,
        float(np.std(scores)) if len(scores) > 1 else None,
        group.line.reliability,
        _residual(pairs, leads, len(rewards)),
        correlation(scores, [float(lengths[number]) for number in known]),
        correlation(scores, [float(sum(map(f"\n{words[number]}".count, _MARKUP))) for number in known]),
        _verdict_counts(pairs),
        triples,
        circular,
        len(group.comparisons) - not_asked,
        failures,
        not_asked,
        sum(bool(each.reply) and each.failure is None for each in group.comparisons),
        Counter(str(each.line.reason or each.line.status) for each in group.members if each.line.reward is None),
        len(said) - len(set(said)),
        _varying(group),
        group.line.is_baseline,
    )


def correlation(first: Sequence[float], second: Sequence[float], least: int = _LEAST_POINTS) -> float | None:
    """Return Pearson's correlation; None below `least` points, or where one of the two does not vary."""
    pairs = CoSpread()
    for x, y in zip(first, second, strict=True):
        pairs.add(x, y)
    return pairs.correlation(LEAST_SPREAD) if pairs.x.count >= least else None


def _varying(group: ScoredGroup) -> tuple[str, ...]:
    values: dict[str, set[float]] = {}
    for each in group.members:
        for name, value in (each.line.components or {}).items():
            if value is not None:
                values.setdefault(name, set()).add(value)
    return tuple(name for name, found in values.items() if len(found) > 1)


def _plain(text: str) -> bytes:
    """Return the words of a text: bytes, from which Python deletes characters ten times as fast."""
    text = text.lower()
    for quote in _QUOTES:
        text = text.replace(quote, "")
    return b" ".join(text.encode("utf-8", "surrogatepass").translate(None, _PUNCTUATION).split())


def _verdict_counts(pairs: Sequence[ComparisonRecord]) -> VerdictCounts:
    """Return the counts of all judges, each compared with itself only."""
    counts = VerdictCounts()
    by_judge: dict[str, dict[Comparison, Verdict]] = defaultdict(dict)
    for each in pairs:
        if each.verdict is not None:
            counts.add(each.verdict)
            first, second = each.indices
            by_judge[each.judge][Comparison(first, second, each.judge_idx)] = each.verdict
    for verdicts in by_judge.values():
        counts.add_orders(verdicts)
        counts.add_repeats(verdicts)
    return counts


def _pair_means(pairs: Sequence[ComparisonRecord]) -> dict[tuple[int, int], float]:
    """Return the mean preference of each pair (i < j); of a pair judged in both orders, the mean of both."""
    by_order: dict[tuple[int, int], list[float]] = defaultdict(list)
    for each in pairs:
        first, second = each.indices
        by_order[first, second].append(0.0 if each.verdict is None else preference(each.verdict))
    by_pair: dict[tuple[int, int], list[float]] = defaultdict(list)
    for (first, second), leads in by_order.items():
        lead = sum(leads) / len(leads)
        by_pair[min(first, second), max(first, second)].append(lead if first < second else -lead)
    return {pair: sum(leads) / len(leads) for pair, leads in by_pair.items()}


def _triples(means: dict[tuple[int, int], float], n: int) -> tuple[int, int]:
    """Return the number of triples whose pairs were all judged, and the number of circular ones."""
    if n > _MAX_DENSE or len(means) < 3 or any(not 0 <= i < n for pair in means for i in pair):
        return 0, 0
    asked, beats = np.zeros((n, n)), np.zeros((n, n))
    for (i, j), lead in means.items():
        asked[i, j] = asked[j, i] = 1
        beats[i, j], beats[j, i] = lead > 0, lead < 0
    return round(np.trace(asked @ asked @ asked) / 6), round(np.trace(beats @ beats @ beats) / 3)


def _residual(pairs: Sequence[ComparisonRecord], leads: Sequence[float], n: int) -> float | None:
    """Return the unexplained share of the preferences in a least-squares fit of levels."""
    if n > _MAX_DENSE or not leads or any(not 0 <= i < n for each in pairs for i in each.indices):
        return None
    design = np.zeros((len(leads), n))
    rows = np.arange(len(leads))
    design[rows, [each.indices[0] for each in pairs]] += 1
    design[rows, [each.indices[1] for each in pairs]] -= 1
    seen = np.asarray(leads, dtype=np.float64)
    total = float(seen @ seen)
    levels, _, rank, _ = np.linalg.lstsq(design, seen, rcond=None)
    left = len(leads) - int(rank)
    if left <= 0 or total == 0:
        return None
    errors = seen - design @ levels
    share = float(errors @ errors) / left / (total / len(leads))
    return share if share > 1e-12 else 0.0
