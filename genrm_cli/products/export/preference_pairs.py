"""Choose pairs of chosen and rejected responses within a group, by rewards and by the judge's own
comparisons.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from random import Random
from statistics import fmean, pstdev

from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.metrics.figures import rounded
from genrm_cli.products.export.candidates import Candidate, Drop, Preferences
from genrm_cli.products.export.export_options import ExportOptions
from genrm_cli.verdicts import preferred, sign_of


def choose_pairs(
    candidates: Sequence[Candidate],
    options: ExportOptions,
    dropped: Counter[Drop],
    preferences: Preferences | None = None,
    key: str = "",
) -> list[tuple[Candidate, Candidate]]:
    """Return the pairs of chosen and rejected of a group that pass all filters, the widest gap
    first.

    A pair is never a tie, never equal texts, never answers to two prompts, and its chosen response
    passed every gate.

    Args:
        candidates: of one group; fewer than two give no pair.
        options: selection and filters.
        dropped: counts each pair that a filter drops, by reason.
        preferences: of the judge between the pairs that it compared; for `compared`, and None for
            all other selections.
        key: key of the group, so that random choices do not depend on other groups.
    """
    if len(candidates) < 2:
        dropped[Drop.TOO_FEW] += 1
        return []
    pairs = []
    for better, worse in _select(candidates, options, preferences or {}, dropped, key):
        reason = _why_dropped(better, worse, options, preferences)
        if reason is None:
            pairs.append((better, worse))
        else:
            dropped[reason] += 1
    return sorted(
        pairs,
        key=lambda pair: (
            rounded(pair[1].reward - pair[0].reward),
            pair[0].index,
            pair[1].index,
        ),
    )


def _select(
    candidates: Sequence[Candidate],
    options: ExportOptions,
    preferences: Preferences,
    dropped: Counter[Drop],
    key: str,
) -> Iterable[tuple[Candidate, Candidate]]:
    """Yield the pairs of a selection, the one with the higher reward first."""
    # Rounded, so that the last bits of two machines choose the same pairs.
    ranked = sorted(candidates, key=lambda candidate: (-rounded(candidate.reward), candidate.index))
    match options.pairs:
        case "all":
            return combinations(ranked, 2)
        case "compared":
            return _compared(ranked, preferences)
        case "top-bottom":
            count = min(options.top, len(ranked) // 2)
            return product(ranked[:count], ranked[-count:])
        case "teacher-student":
            return _taught(ranked, dropped)
    best = next((candidate for candidate in ranked if not candidate.is_gated), None)
    if best is None:
        dropped[Drop.NONE_PASSES_GATES] += 1
        return ()
    others = [candidate for candidate in ranked if candidate is not best]
    match options.pairs:
        case "best-typical-worst":
            rewards = [candidate.reward for candidate in ranked]
            typical = fmean(rewards) - 2 * pstdev(rewards)
            worse = min(
                others,
                key=lambda other: (rounded(abs(other.reward - typical)), other.reward, other.index),
            )
        case "best-random":
            worse = Random(f"{options.seed} {key}").choice(others)
        case _:
            worse = others[-1]
    return ((best, worse),)


def _taught(
    ranked: Sequence[Candidate], dropped: Counter[Drop]
) -> Iterator[tuple[Candidate, Candidate]]:
    """Yield the best rollout of a teacher against each of the policy's that answers the same
    prompt.
    """
    best = {each.prompt: each for each in reversed(ranked) if each.is_teacher and not each.is_gated}
    for student in ranked:
        if student.is_teacher:
            continue
        teacher = best.get(student.prompt)
        if teacher is None:
            dropped[Drop.NO_TEACHER] += 1
        elif rounded(teacher.reward) < rounded(student.reward):
            dropped[Drop.TEACHER_WORSE] += 1
        else:
            yield teacher, student


def _compared(
    ranked: Sequence[Candidate], preferences: Preferences
) -> Iterator[tuple[Candidate, Candidate]]:
    ranks = {candidate.index: rank for rank, candidate in enumerate(ranked)}
    for i, j in sorted(preferences):
        if i in ranks and j in ranks:
            better, worse = sorted((ranks[i], ranks[j]))
            yield ranked[better], ranked[worse]


def _why_dropped(
    better: Candidate,
    worse: Candidate,
    options: ExportOptions,
    preferences: Preferences | None,
) -> Drop | None:
    """Return why a pair is dropped, by the first filter that it fails; None if it passes all."""
    if rounded(better.reward) <= rounded(worse.reward):
        return Drop.TIE
    if better.is_gated:
        return Drop.GATED
    if better.prompt != worse.prompt:
        return Drop.MIXED_PROMPTS
    if better.text == worse.text:
        return Drop.EQUAL_TEXTS
    if preferences is not None:
        towards = preferences[min(better.index, worse.index), max(better.index, worse.index)]
        if towards == 0:
            return Drop.ORDERS_DISAGREE
        if (towards > 0) != (better.index < worse.index):
            return Drop.AGAINST_REWARDS
    if rounded(better.reward - worse.reward) < options.min_gap:
        return Drop.MIN_GAP
    if options.max_length_ratio is not None:
        shorter, longer = sorted((better.chars, worse.chars))
        if longer > options.max_length_ratio * shorter:
            return Drop.MAX_LENGTH_RATIO
    return None


def preferences_of(comparisons: Sequence[ComparisonRecord]) -> Preferences:
    """Return the preference in each pair that was compared; see `Preferences`.

    In each order, the verdicts of all judges and repeats vote.
    """
    votes: defaultdict[tuple[int, int], float] = defaultdict(float)
    for each in comparisons:
        if each.verdict is None or not each.is_pair:
            continue
        first, second = each.indices
        votes[first, second] += preferred(each.verdict)
    found: dict[tuple[int, int], int] = {}
    for (first, second), vote in votes.items():
        sign = sign_of(rounded(vote))
        pair, towards = ((first, second), sign) if first < second else ((second, first), -sign)
        found[pair] = towards if found.get(pair, towards) == towards else 0
    return found
