"""The contest of a ranking: the policies of an input, which of their responses are compared, and
what the judges say.

While the input is indexed, the contest notes the policy of each rollout. It then finds the prompts
that policies share, and the pairs of policies to compare on each.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.index import InputIndex
from genrm_cli.json_types import Record, field_at
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import Comparison, generator_of
from genrm_cli.products.ranking.outcomes import Outcomes, OutcomeTable
from genrm_cli.products.ranking.pair_plan import (
    Forecast,
    Pair,
    all_pairs,
    assumed_deviation,
    count_prompts,
    forecast,
)
from genrm_cli.rollouts.group_keys import digest_of_prompt, group_key, value_at
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.storage.location import stem_of
from genrm_cli.verdicts import Failure, FailureKind, Reason, Verdict

_NO_POLICY = -1  # in an array of numbers of policies


@dataclass(frozen=True, slots=True)
class RankOptions:
    """What to rank, and how.

    Attributes:
        policy_field: dotted path of the field that names the policy; None for one policy per file.
        over: dotted path of a field whose numbers are the policies, in order; None for no curve.
        baseline: the only policy to compare the others with; for a curve, the first step unless it
            is given.
        samples: most responses of a policy to a prompt; the n-th of one meets the n-th of the
            other.
        both_orders: show each pair in both orders; else in one, at random.
        limit: most prompts; None for all.
        seed: random seed of pairs.
        one_look: whether the number of prompts was planned and the ranking is looked at once, so
            that intervals need not hold at any time.
    """

    policy_field: str | None = None
    over: str | None = None
    baseline: str | None = None
    samples: int = 1
    both_orders: bool = True
    limit: int | None = None
    seed: int = 0
    one_look: bool = False


@dataclass(frozen=True, slots=True)
class Entrants:
    """The responses to one prompt; indices count in the group.

    Attributes:
        of_policy: indices of the responses of each policy.
        original: for those that can be compared, the first one that is equal to judges. `chars`:
            characters of each.
    """

    of_policy: dict[int, list[int]]
    original: dict[int, int]
    chars: Sequence[int]

    def meetings(self, pair: Pair) -> list[tuple[int, int]]:
        """Return the responses of two policies that meet: each policy's n-th."""
        return list(
            zip(self.of_policy.get(pair[0], ()), self.of_policy.get(pair[1], ()), strict=False)
        )

    def ruled(self, i: int, j: int) -> float | None:
        """Return the share that the first wins without a judge: blank responses lose, equal ones
        tie; else None.
        """
        if i in self.original and j in self.original:
            return 0.5 if self.original[i] == self.original[j] else None
        return 0.5 + ((i in self.original) - (j in self.original)) / 2

    def shown(self, i: int, j: int) -> tuple[int, int]:
        """Return the responses that are shown to compare two that need a judge."""
        return self.original[i], self.original[j]


class Contest:
    """The comparisons of policies on the prompts that at least two of them answered. It is called
    with each rollout while an input is indexed.

    Attributes:
        policies: names, in the order of the files, of their first appearance, or of their numbers.
        rows: rows of the group of each prompt.
        left_out: number of items that do not take part, by what they are.
        anchor: number of the policy that the others are compared with; None for all pairs.
        chosen: the pairs of policies to compare, by prompt.
        results: by prompt and the responses shown, the verdict; the share of the first if one made
            the request fail and so lost; or None for other failures.
    """

    def __init__(
        self, options: RankOptions, group_by: str | None, plan: GroupPlan, metrics: RunMetrics
    ) -> None:
        self.options = options
        self.plan = plan
        self.policies = list[str]()
        self.left_out = Counter[str]()
        self.rows: list[array[int]] = []
        self.anchor: int | None = None
        self.chosen: dict[int, list[Pair]] = {}
        self._metrics = metrics
        self.results: dict[int, dict[tuple[int, ...], Verdict | float | None]] = {}
        self._names: dict[str, int] = {}
        self._path = options.over or options.policy_field
        self._group_by = group_by
        # Arrays: an input may have millions of rollouts. By row, as the next two.
        self._policies = array("l")
        self._chars = array("L")
        self._blank = array("B")

    def __call__(self, rollout: Rollout, record: Record, line: int | str) -> str | None:
        """Note the next rollout, and return the key of its group: rollouts are grouped by their
        prompts.
        """
        name = None if self._path is None else field_at(record, self._path)
        number = _NO_POLICY
        if isinstance(name, str | int | float) and name != "":
            number = self._names.setdefault(str(name), len(self._names))
        self._policies.append(number)
        why = self.plan.why_not_compared(rollout)
        self._chars.append(len(rollout.answer or ""))
        self._blank.append(why is not None and why.reason is Reason.BLANK)
        if self._group_by is not None:
            task = value_at(record, self._group_by)
            return None if task is None else group_key(rollout, line, task)
        if rollout.opens_freely or not rollout.has_prompt:
            return group_key(rollout, line)
        return group_key(rollout, line, f"prompt:{digest_of_prompt(rollout.prompt):016x}")

    def find_prompts(self, index: InputIndex) -> None:
        """Name the policies of the indexed input and find the prompts that they share; refuse an
        input without any.
        """
        self.index = index
        uri = index.sources.uri
        names = list(self._names)
        if self._path is None:
            names = _names_of_files(index)
            for number in range(len(names)):
                for row in index.table.file_rows(number):
                    self._policies[row] = number
        elif not names:
            setting = "over" if self.options.over is not None else "policy_field"
            raise InputError(
                f"{uri}: no rollout has a value under ", SettingRef(setting, self._path), "."
            )
        if self.options.over is not None:
            try:
                order = sorted(names, key=float)
            except ValueError as error:
                steps = SettingRef("over", self.options.over)
                raise InputError(steps, f": {error}; expected numbers.") from error
            self._policies = array(
                "l", (each if each < 0 else order.index(names[each]) for each in self._policies)
            )
            names = order
        if len(names) < 2:
            raise InputError(
                f"{uri}: its only policy is {names[0]!r}, and a ranking needs two. ",
                naming(
                    "Name several files, or the field that names the policy with $policy_field."
                ),
            )
        baseline = self.options.baseline
        if baseline not in (None, *names):
            raise UsageError(
                SettingRef("baseline", baseline), f": the policies are {', '.join(names)}."
            )
        self.policies = names
        for _, rows in index.iter_rows():
            if index.table.mixed(rows) is not None:
                self.left_out["group with different prompts or references"] += 1
            elif len(self._entrants(rows, self.left_out).of_policy) > 1:
                self.rows.append(array("Q", rows))
            else:
                self.left_out["prompt without two policies"] += 1
        if not self.rows:
            raise InputError(
                f"{uri}: no prompt was answered by two of the policies {', '.join(names)}, so "
                "nothing can be compared. "
                "Prompts are matched by their text; ",
                naming("if it differs, name the field of the task with $group_by."),
            )
        self.rows = self.rows[: self.options.limit]

    def entrants(self, prompt: int) -> Entrants:
        """Return the responses to a prompt."""
        return self._entrants(self.rows[prompt].tolist(), Counter())

    def _entrants(self, rows: list[int], left_out: Counter[str]) -> Entrants:
        originals = self.index.table.originals(rows)
        excluded = self.index.table.left_out(rows)
        place = {row: index for index, row in enumerate(rows)}
        found: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            policy = self._policies[row]
            if policy == _NO_POLICY:
                left_out["rollout without a policy"] += 1
            elif row in excluded or (row not in originals and not self._blank[row]):
                left_out[f"missing response of {self.policies[policy]}"] += 1
            elif len(found.get(policy, ())) == self.options.samples:
                left_out[f"response beyond {self.options.samples} per prompt"] += 1
            else:
                found.setdefault(policy, []).append(index)
        chars = [self._chars[row] for row in rows]
        return Entrants(
            found, {place[row]: place[first] for row, first in originals.items()}, chars
        )

    def comparisons(self, prompt: int, pairs: Iterable[Pair]) -> list[Comparison]:
        """Return the requests for pairs of policies on a prompt, each once."""
        entrants = self.entrants(prompt)
        asked = dict[Comparison, None]()
        for pair in pairs:
            for i, j in entrants.meetings(pair):
                if entrants.ruled(i, j) is not None:
                    continue
                # Sorted: the coin below must not depend on which policy is named first.
                orders = sorted([entrants.shown(i, j), entrants.shown(j, i)])
                if not self.options.both_orders:
                    coin = generator_of(f"{prompt} {orders[0]}", self.options.seed).random()
                    orders = [orders[coin < 0.5]]
                asked.update({Comparison(*shown, 0): None for shown in orders})
        return list(asked)

    def choose(self, plan: GroupPlan) -> None:
        """Choose the comparisons for these judges and count them."""
        self.plan = plan
        options = self.options
        is_curve = options.over is not None
        if options.baseline is not None:
            self.anchor = self.policies.index(options.baseline)
        elif is_curve:
            self.anchor = 0
        allowed = all_pairs(len(self.policies), self.anchor, is_curve=is_curve)
        for prompt in range(len(self.rows)):
            present = sorted(self.entrants(prompt).of_policy)
            if pairs := [pair for pair in combinations(present, 2) if pair in allowed]:
                self.chosen[prompt] = pairs
        self._count()

    def _count(self) -> None:
        """Count what is planned."""
        metrics = self._metrics
        table = self.index.table
        metrics.groups = len(self.chosen)
        metrics.comparisons_planned = metrics.planned_calls = metrics.prompt_chars = 0
        for prompt, pairs in self.chosen.items():
            rows = self.rows[prompt].tolist()
            asked = len(self.comparisons(prompt, pairs))
            efforts = self.plan.efforts(table.count_answered(rows))
            for judge, effort in zip(self.plan.judges, efforts, strict=False):
                requests = asked if judge.grading is None else effort.requests
                calls = requests * effort.turns
                metrics.comparisons_planned += requests
                metrics.planned_calls += calls
                metrics.prompt_chars += round(calls * table.chars_shown(rows, effort.responses))

    def iter_groups(self) -> Iterator[tuple[int, Group]]:
        """Yield the prompts, each with its comparisons."""
        for prompt, pairs in sorted(self.chosen.items()):
            group = self.index.read_group(self.rows[prompt].tolist())
            yield prompt, replace(group, pairs=self.comparisons(prompt, pairs))

    def take(self, prompt: int, judged: JudgedGroup) -> None:
        """Keep what the judges say about a prompt."""
        found = verdicts_of(judged, self.plan)
        results = self.results.setdefault(prompt, {})
        ungraded = set[int]()
        for request, outcome in found.judged.results:
            failure = outcome.result
            # What a limit left unasked is no failure of anybody.
            if not isinstance(failure, Failure) or failure.kind is FailureKind.NOT_ASKED:
                continue
            if self.plan.judges[request.judge].grading is not None:
                ungraded.update(request.shown)
                continue
            results[request.shown] = None
        if ungraded:
            asked = self.comparisons(prompt, self.chosen[prompt])
            results.update({(i, j): None for i, j, _ in asked if ungraded & {i, j}})
        results.update({(i, j): verdict for (i, j, _), verdict in found.used.items()})
        self._metrics.redactions.update(judged.redactions)
        self._metrics.groups_done += 1

    def outcomes(self) -> Outcomes:
        """Return the outcomes so far."""
        table = OutcomeTable(self.policies, self.options.both_orders)
        for prompt, results in sorted(self.results.items()):
            entrants = self.entrants(prompt)
            chars = entrants.chars
            table.begin_prompt(
                {a: fmean(chars[i] for i in found) for a, found in entrants.of_policy.items()}
            )
            for a, b in self.chosen[prompt]:
                for i, j in entrants.meetings((a, b)):
                    for pair, (first, second) in (((a, b), (i, j)), ((b, a), (j, i))):
                        longer = float(chars[first] - chars[second])
                        won = entrants.ruled(first, second)
                        if won is not None:
                            table.add(*pair, longer, won)
                        elif (shown := entrants.shown(first, second)) in results:
                            table.add(*pair, longer, results[shown])
        return table.outcomes()

    def prompt_texts(self) -> dict[int, str]:
        """Return the last turn of each prompt that is asked about, by its number."""
        texts = {}
        for prompt in self.chosen:
            (rollout, *_) = self.index.read_group(self.rows[prompt].tolist()).rollouts
            texts[prompt] = rollout.prompt[-1].text if rollout.prompt else ""
        return texts

    def forecast(self) -> Forecast | None:
        """Return what the chosen comparisons can show."""
        options = self.options
        deviation = assumed_deviation(options.samples, both_orders=options.both_orders)
        return forecast(
            count_prompts(self.chosen, len(self.policies)),
            deviation,
            self.anchor,
            prompts=len(self.chosen),
            one_look=options.one_look,
        )


def _names_of_files(index: InputIndex) -> list[str]:
    """Return the names of the files without folders and suffixes, if these tell them apart."""
    sources = index.sources
    uris = sources.names() if sources.are_many else sources.uris
    names = [stem_of(uri).rpartition("/")[2] for uri in uris]
    return names if len(set(names)) == len(names) else list(uris)
