"""Who won: the comparison records of scored groups as outcomes between policies."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from statistics import fmean

from genrm_cli.groups.comparisons import join_verdicts
from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.products.ranking.outcomes import OutcomeTable
from genrm_cli.scored.lines import ScoredGroup, ScoredRollout
from genrm_cli.verdicts import FailureKind, Reason, Verdict, preferred

Shown = tuple[int, int]
# Rollouts that no judge compares; a blank response loses instead.
_ABSENT = frozenset(
    (
        Reason.NO_RESPONSE,
        Reason.MEDIA,
        Reason.EXCLUDED,
        Reason.SUPERSEDED,
        Reason.MIXED_PROMPTS,
        Reason.MIXED_REFERENCES,
    )
)


def add_group(
    group: ScoredGroup,
    numbers: Mapping[int, int],
    table: OutcomeTable,
    left_out: Counter[str],
) -> None:
    """Add the outcomes of a group.

    Args:
        numbers: the policy of each rollout that has one, by its index in the group.
        left_out: counts what takes no part, by what it is.
    """
    # A trial of a part leaves nothing out of that part.
    asked = [each for each in group.members if each.line.reason is not Reason.NOT_IN_TRIAL]
    if not asked:
        return
    members = {each.line.index: each for each in asked}
    of_policy: dict[int, list[int]] = defaultdict(list)
    for index, member in members.items():
        if index not in numbers:
            left_out["rollout without a policy"] += 1
        elif member.line.reason in _ABSENT:
            left_out["response that cannot be compared"] += 1
        else:
            of_policy[numbers[index]].append(index)
    if len(of_policy) < 2:
        left_out["prompt without two policies"] += 1
        return
    shares = _shares_of(group.comparisons)
    table.begin_prompt(of_policy)
    for a, b in combinations(sorted(of_policy), 2):
        for i, j in product(of_policy[a], of_policy[b]):
            ruled = _ruled(members[i], members[j])
            shown = _original(members[i]), _original(members[j])
            for first, second, places in ((a, b, shown), (b, a, shown[::-1])):
                if ruled is not None:
                    table.add(first, second, ruled if first == a else 1 - ruled, by_rule=True)
                elif places in shares:
                    table.add(first, second, shares[places])


def _ruled(one: ScoredRollout, other: ScoredRollout) -> float | None:
    """Return the share that the first response wins without a judge: blank ones lose, equal ones
    tie; else None.
    """
    blank = one.line.reason is Reason.BLANK, other.line.reason is Reason.BLANK
    if any(blank):
        return 0.5 + (blank[1] - blank[0]) / 2
    return 0.5 if _original(one) == _original(other) else None


def _original(member: ScoredRollout) -> int:
    """Return the index of the rollout whose comparisons count for this one."""
    return member.line.index if member.line.equal_to is None else member.line.equal_to


def _shares_of(records: Sequence[ComparisonRecord]) -> dict[Shown, float | None]:
    """Return the share that the response shown first won, by what was shown; None where no request
    got a verdict.
    """
    verdicts: dict[Shown, list[Verdict | None]] = defaultdict(list)
    grades: dict[int, list[float]] = defaultdict(list)
    for record in records:
        # What a limit left unasked is no failure of anybody.
        is_asked = record.failure is None or record.failure.kind is not FailureKind.NOT_ASKED
        if record.component is not None or not is_asked:
            continue
        shown = record.indices
        if record.grades is None and len(shown) == 2:
            verdicts[shown[0], shown[1]].append(record.verdict)
            continue
        known = record.grades or (None,) * len(shown)
        graded = list(zip(shown, known, strict=False))
        if len(graded) == 1 and graded[0][1] is not None:
            grades[shown[0]].append(graded[0][1])
        for (i, first), (j, second) in combinations(graded, 2):
            if first is None or second is None:
                verdicts[i, j].append(None)
            else:
                verdicts[i, j].append(verdict_of_grades(first, second))
    means = {index: fmean(each) for index, each in grades.items()}
    for i, j in product(means, means):
        if i != j:
            verdicts[i, j].append(verdict_of_grades(means[i], means[j]))
    joint = {shown: join_verdicts(each) for shown, each in verdicts.items()}
    return {
        shown: None if verdict is None else (1 + preferred(verdict)) / 2
        for shown, verdict in joint.items()
    }
