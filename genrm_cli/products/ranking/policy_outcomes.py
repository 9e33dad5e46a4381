"""Turn the comparison records of scored groups into outcomes between policies."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations, product

from genrm_cli.products.ranking.outcomes import OutcomeTable
from genrm_cli.scored.lines import ScoredGroup, ScoredRollout, answers_by_pair
from genrm_cli.verdicts import Reason, join_verdicts, preferred

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
    members = {
        each.line.index: each
        for each in group.members
        if each.line.reason is not Reason.NOT_IN_TRIAL
    }
    if not members:
        return
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
    answers = answers_by_pair(group.comparisons)
    table.begin_prompt(of_policy)
    for a, b in combinations(sorted(of_policy), 2):
        for i, j in product(of_policy[a], of_policy[b]):
            shown = _original(members[i]), _original(members[j])
            ruled = _ruled(members[i], members[j])
            if ruled is not None:
                table.add(a, b, ruled, by_rule=True)
                table.add(b, a, 1 - ruled, by_rule=True)
                continue
            for first, second, places in ((a, b, shown), (b, a, shown[::-1])):
                # What a limit left unasked is no failure of anybody.
                known = [each.verdict for each in answers.get(places, ()) if each.was_asked]
                verdict = join_verdicts(known)
                won = None if verdict is None else (1 + preferred(verdict)) / 2
                if known:
                    table.add(first, second, won)


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
