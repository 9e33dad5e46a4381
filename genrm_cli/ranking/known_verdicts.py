"""Outcomes from verdicts that exist: those beside scored lines, and recorded ones. Nobody is
asked.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from statistics import fmean

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.json_types import Record
from genrm_cli.ranking.contest import RankOptions, name_at, sorted_steps
from genrm_cli.ranking.outcomes import Outcomes, OutcomeTable
from genrm_cli.ranking.recorded_verdicts import RecordedVerdict, iter_recorded
from genrm_cli.scored.files import find_scored
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.lines import ScoredGroup
from genrm_cli.settings import Settings
from genrm_cli.storage.location import is_scored_file
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import FailureKind


def read_known(
    given: Sequence[str], options: RankOptions, settings: Settings
) -> tuple[Outcomes, str]:
    """Return the outcomes of verdicts that exist, and the name of their judge."""
    if options.recorded is None:
        return _read_paid(given, options, settings)
    if len(given) != 1:
        raise UsageError(naming("$recorded reads one file of recorded verdicts."))
    return read_recorded(given[0], options.recorded), options.recorded


def uses_known(given: Sequence[str], options: RankOptions, settings: Settings) -> bool:
    """Return whether verdicts that exist are ranked: recorded ones, or those of scored lines if no
    judge is named.
    """
    judge = settings.judge
    has_judge = judge.judge or judge.model or judge.base_url or settings.panel.judges
    return options.recorded is not None or (not has_judge and all(map(is_scored_file, given)))


def read_recorded(uri: str, judge: str) -> Outcomes:
    """Return the recorded verdicts of a judge, named `source/judge`."""
    judges = dict[str, None]()
    prompts = defaultdict[str, list[RecordedVerdict]](list)
    for each in iter_recorded(uri):
        if each.verdict is not None:
            judges[each.judge] = None
            if each.judge == judge:
                prompts[each.prompt].append(each)
    if judge not in judges:
        raise InputError(
            f"{uri}: no verdicts of ",
            SettingRef("recorded", judge),
            f"; it has {', '.join(judges)}.",
        )
    compared = {
        name for lines in prompts.values() for each in lines for name in (each.first, each.second)
    }
    table = OutcomeTable(sorted(compared))
    number_of = table.policies.index
    for lines in prompts.values():
        pairs = [(number_of(each.first), number_of(each.second)) for each in lines]
        table.begin_prompt({number: 0.0 for pair in pairs for number in pair})
        for (first, second), each in zip(pairs, lines, strict=True):
            table.add(first, second, 0.0, each.verdict)
    return table.outcomes()


def _read_paid(
    given: Sequence[str], options: RankOptions, settings: Settings
) -> tuple[Outcomes, str]:
    """Return the outcomes of all comparisons beside scored lines, and the name of their judge.

    Equal responses share their verdicts, and blank ones were not compared: a pair of policies
    counts where it has different responses."""
    if (path := options.over or options.policy_field) is None:
        raise UsageError(
            naming(
                "no judge given: pass $base_url and $model. Scored lines need none if "
                "$policy_field names policies."
            )
        )
    names = dict[str, None]()
    judges = set[str]()

    def policy_of(record: Record) -> Record:
        name = name_at(record, path)
        names.update({} if name is None else {name: None})
        return {"policy": name}

    with ExitStack() as opened:
        scored = find_scored(given, settings, Store(settings.storage))
        runs = [opened.enter_context(ScoredRun(each, settings, None, policy_of)) for each in scored]
        for run in runs:
            run.read(Store(settings.storage))
            judges |= run.judges
        table = OutcomeTable(list(names) if options.over is None else sorted_steps(names, path))
        is_swapped = [
            each for run in runs for group in run.iter_groups() for each in _add_group(table, group)
        ]
    table.both_orders = 2 * sum(is_swapped) > len(is_swapped)
    if len(judges) != 1 or not is_swapped:
        found = (
            f"verdicts of {len(judges)} judges"
            if len(judges) > 1
            else "no verdict on responses of two policies"
        )
        raise InputError(
            f"{', '.join(given)}: {found}; ",
            naming("pass $base_url and $model of the judge to ask."),
        )
    return table.outcomes(), judges.pop()


def _add_group(table: OutcomeTable, group: ScoredGroup) -> list[bool]:
    """Add a group; return for each of its pairs of responses whether both orders were asked."""
    policies = dict[int, int]()
    chars = dict[int, int]()
    equal = defaultdict[int, list[int]](list)
    for member in group.members:
        index = member.line.index
        line = member.line
        name = member.record["policy"]
        if name is not None and member.rollout.is_comparable:
            policies[index] = table.policies.index(name)
            chars[index] = len(member.rollout.answer or "")
            equal[index if line.equal_to is None else line.equal_to].append(index)
    means = {
        each: fmean(chars[i] for i in chars if policies[i] == each)
        for each in set(policies.values())
    }
    table.begin_prompt(means)
    asked = set[tuple[int, int]]()
    for comparison in group.comparisons:
        if comparison.is_pair and (
            comparison.failure is None or comparison.failure.kind is not FailureKind.NOT_ASKED
        ):
            i, j = comparison.indices
            for a, b in product(equal[i], equal[j]):
                if policies[a] != policies[b]:
                    longer = float(chars[a] - chars[b])
                    table.add(policies[a], policies[b], longer, comparison.verdict)
                    asked.add((a, b))
    return [(b, a) in asked for a, b in asked]
