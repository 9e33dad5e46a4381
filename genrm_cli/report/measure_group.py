"""What a scored group says about the signal in it; "not measurable" is None, never 0."""

import math
import string
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genrm_cli.rollouts.rollout import words_of
from genrm_cli.scored.lines import ComparisonRecord, ScoredGroup
from genrm_cli.verdicts import FailureKind, Verdict, preference, sign_of

Floats = npt.NDArray[np.float64]

_MAX_DENSE = 256  # rollouts; the fit and the triples of more would take long
_LEAST_POINTS = 3  # for a correlation
_PUNCTUATION = string.punctuation.encode()
_QUOTES = "’‘“”…"
_MARKUP = ("**", "\n#", "\n- ", "\n* ", "\n1.", "```", "\n|")


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One group in numbers.

    Attributes:
        key: of the group.
        prompt: beginning of its last turn.
        size: rollouts.
        rewards: by index, None for an unscored one.
        lengths_chars: of the words of each response.
        spread: population standard deviation of the rewards; None for fewer than two.
        reliability: share of the spread that is signal.
        residual: unexplained part of the judge's preferences that no set of levels explains, per degree of freedom:
            0 = they fit one order exactly, 1 = no order explains more than chance.
        length_effect: Pearson correlation of reward and length; None below three rewards.
        markup_effect: likewise of reward and the number of marks of Markdown.
        verdicts: that compare two responses; `first_wins` prefer the one shown first, `second_wins` the other.
        pairs_in_both_orders: judged in both; `flips` prefer another response in each.
        triples: of rollouts whose three pairs were all judged; `circular` prefer a to b, b to c and c to a.
        asked: requests to judges, those for verdicts on pairs and for grades alike.
        failures: of them without an answer, by kind.
        not_asked: requests that were planned but not made.
        replies: answered requests whose replies are known.
        unscored: rollouts without a reward, by reason.
        duplicates: responses equal to an earlier one but for case, spaces and punctuation.
        varying: components that tell its rollouts apart.
        is_baseline: whether the built-in baseline judged it.
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
    verdicts: int
    first_wins: int
    second_wins: int
    pairs_in_both_orders: int
    flips: int
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
    """Return the figures of a group; `prompt` is the beginning of what was asked."""
    words = [words_of(each.rollout.response or ()) for each in group.members]
    rewards = tuple(each.line.reward for each in group.members)
    lengths = tuple(map(len, words))
    known = [number for number, reward in enumerate(rewards) if reward is not None]
    scores = [reward for reward in rewards if reward is not None]
    pairs = [each for each in group.comparisons if each.is_pair and each.verdict is not None]
    leads = [preference(each.verdict) for each in pairs if each.verdict is not None]
    means, both, flips = _pair_means(pairs)
    triples, circular = _triples(means, len(rewards))
    failures = Counter(each.failure.kind.value for each in group.comparisons if each.failure is not None)
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
        correlation(scores, [float(_marks(words[number])) for number in known]),
        len(pairs),
        sum(lead > 0 for lead in leads),
        sum(lead < 0 for lead in leads),
        both,
        flips,
        triples,
        circular,
        len(group.comparisons) - not_asked,
        failures,
        not_asked,
        sum(bool(each.reply) and each.failure is None for each in group.comparisons),
        Counter(each.line.reason_text or each.line.status for each in group.members if each.line.reward is None),
        _duplicates(words),
        _varying(group),
        group.line.is_baseline,
    )


def correlation(first: Sequence[float], second: Sequence[float], least: int = _LEAST_POINTS) -> float | None:
    """Return Pearson's correlation; None below `least` points, or where one of the two does not vary."""
    if len(first) < least:
        return None
    a, b = np.subtract(first, np.mean(first)), np.subtract(second, np.mean(second))
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 1e-9 else None


def _varying(group: ScoredGroup) -> tuple[str, ...]:
    values: dict[str, set[float]] = {}
    for each in group.members:
        for name, value in (each.line.components or {}).items():
            if value is not None:
                values.setdefault(name, set()).add(value)
    return tuple(name for name, found in values.items() if len(found) > 1)


def _marks(text: str) -> int:
    return sum(map(f"\n{text}".count, _MARKUP))


def _duplicates(words: Sequence[str]) -> int:
    said = [plain for text in words if (plain := _plain(text))]
    return len(said) - len(set(said))


def _plain(text: str) -> bytes:
    """Return the words of a text: bytes, from which Python deletes characters ten times as fast."""
    text = text.lower()
    for quote in _QUOTES:
        text = text.replace(quote, "")
    return b" ".join(text.encode("utf-8", "surrogatepass").translate(None, _PUNCTUATION).split())


def _pair_means(pairs: Sequence[ComparisonRecord]) -> tuple[dict[tuple[int, int], float], int, int]:
    """Return the mean preference of each pair (i < j), the pairs judged in both orders, and those that flip."""
    by_order: dict[tuple[int, int], list[float]] = defaultdict(list)
    for each in pairs:
        first, second = each.indices
        by_order[first, second].append(preference(each.verdict) if isinstance(each.verdict, Verdict) else 0.0)
    means, both, flips = {}, 0, 0
    for (first, second), leads in by_order.items():
        back = by_order.get((second, first))
        lead = sum(leads) / len(leads)
        if back is None:
            means[min(first, second), max(first, second)] = lead if first < second else -lead
        elif first < second:
            other = -sum(back) / len(back)
            means[first, second] = (lead + other) / 2
            both += 1
            flips += sign_of(lead) != sign_of(other)
    return means, both, flips


def _triples(means: dict[tuple[int, int], float], n: int) -> tuple[int, int]:
    """Return the number of triples whose pairs were all judged, and of those that go round in a circle."""
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
