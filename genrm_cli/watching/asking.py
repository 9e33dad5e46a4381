"""The calls that watching takes: sentinels, audits and canaries. None of them is recalled from a
journal.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import fmean

from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import Tag
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import InputIndex
from genrm_cli.jobs.judging_session import JudgingSession
from genrm_cli.jobs.pairs.labelled_pairs import read_pairs
from genrm_cli.jobs.stores import OutcomeStore
from genrm_cli.judging.opening.open_judges import OpenJudges
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import AGAINST_FIRST, PairingPlan
from genrm_cli.rollouts.rollout import Rollout, Text
from genrm_cli.verdicts import Verdict, preferred
from genrm_cli.watching.canaries import CANARIES
from genrm_cli.watching.sentinels import MISSING, Count
from genrm_cli.watching.watched_records import MARGINS, WatchRecord

_NAMED_GROUPS = 10  # as many as somebody reads


@dataclass(frozen=True, slots=True)
class Panel:
    """Judges that the watch asks, outside the journal: an answer of an earlier run would hide a
    change.

    The metrics of `run`, which the judges and the auditor share, count the calls of both.
    """

    judges: OpenJudges
    plan: GroupPlan
    run: RunContext

    async def compare(
        self, pairs: Iterable[tuple[Tag, Group]], keep: Callable[[Tag, JudgedGroup], None]
    ) -> None:
        """Ask about groups of two, in an order that the key of each decides."""
        plan = replace(
            self.plan,
            pairing=PairingPlan(AGAINST_FIRST),
            graders=(),
            rewards=RewardPlan(),
            keep_replies=False,
        )
        await JudgingSession(self.judges, plan, self.run).ask(pairs, keep)

    def with_cost(self, found: WatchRecord) -> WatchRecord:
        """Return a record with the cost of all calls so far."""
        metrics = self.run.metrics
        return replace(
            found,
            calls=metrics.calls,
            prompt_tokens=metrics.prompt_tokens,
            completion_tokens=metrics.completion_tokens,
        )


@dataclass(frozen=True, slots=True)
class Dump:
    """The judged groups of an input, to take samples from."""

    uri: str
    index: InputIndex
    outcomes: OutcomeStore

    def iter_sample(self, count: float, purpose: str) -> Iterator[tuple[float, Group, JudgedGroup]]:
        """Yield about this many groups, each with a number from 0 to 1 that chooses within it.

        The choice depends on the input, the group and the purpose alone, so that every run makes
        the same."""
        share = count / max(1, self.index.metrics.groups)
        for number, rows in self.index.iter_rows():
            digest = sha256(f"{purpose}\0{self.uri}\0{number}".encode()).digest()
            drawn, within = (int.from_bytes(part) / 2**64 for part in (digest[:8], digest[8:16]))
            if drawn < share and number in self.outcomes:
                yield within, self.index.read_group(rows), self.outcomes.load(number)


def read_sentinels(uri: str, run: RunContext) -> list[Group]:
    """Return the sentinels of a file, each as a group whose first response is the better one.

    Raises:
        InputError: the file cannot be read, or holds no labelled pair.
    """
    with run.open_source(uri) as source:
        pairs = read_pairs(source, replace(run, metrics=RunMetrics()))
        return [group for _, group in pairs.iter_groups(source, run)]


async def ask_sentinels(sentinels: Sequence[Group], judges: Panel) -> str:
    """Ask about all sentinels once; return the verdicts of each judge in turn, one character for
    each sentinel.
    """
    verdicts = [MISSING] * (len(judges.plan.judges) * len(sentinels))

    def take(place: int, judged: JudgedGroup) -> None:
        for judge, lead in _iter_leads(judged):
            verdicts[judge * len(sentinels) + place] = "=+-"[lead]

    await judges.compare(enumerate(sentinels), take)
    return "".join(verdicts)


def _iter_leads(judged: JudgedGroup) -> Iterator[tuple[int, int]]:
    """Yield each judge with a verdict: 1 if it prefers the first rollout of the group, -1 for the
    other, 0 for a tie.
    """
    for request, outcome in judged.results:
        if isinstance(outcome.result, Verdict):
            lead = preferred(outcome.result)
            yield request.judge, lead if request.shown[0] == 0 else -lead


@dataclass(frozen=True, slots=True)
class Audit:
    """The verdict of an auditor on a pair that the judge decided.

    Attributes:
        margin: the difference of the judge's scores.
        lead: 1 if the auditor prefers the same response, -1 for the other, 0 for a tie, which is a
            disagreement.
        longer_chars: by how much the response is longer that the judge prefers.
    """

    margin: float
    lead: int
    longer_chars: int
    key: str | None


def count_audits(audits: Sequence[Audit], found: WatchRecord) -> WatchRecord:
    """Return a record with audits, counted by the margin of the judge."""
    strata = [[0, 0] for _ in range(len(MARGINS) + 1)]
    for audit in audits:
        stratum = strata[bisect_left(MARGINS, audit.margin)]
        stratum[0] += audit.lead < 1
        stratum[1] += 1
    # By how much more often than the auditor the judge prefers the longer response.
    longer = [
        math.copysign((1 - audit.lead) / 2, audit.longer_chars)
        for audit in audits
        if audit.longer_chars
    ]
    apart = sorted(
        ((each.margin, each.key or "") for each in audits if each.lead < 1), reverse=True
    )
    return replace(
        found,
        audits=tuple((bad, count) for bad, count in strata),
        audit_length=fmean(longer) if longer else None,
        look_at=tuple(key for _, key in apart[:_NAMED_GROUPS]),
    )


async def ask_auditor(dump: Dump, count: float, auditor: Panel) -> list[Audit]:
    """Ask the auditor about pairs that the first judge decided, at most one in each group."""
    audits = []

    def iter_pairs() -> Iterator[tuple[float, Group]]:
        for within, group, judged in dump.iter_sample(count, "audit"):
            decided = [
                (id_.shown, outcome.result)
                for id_, outcome in judged.results
                if id_.judge == 0
                and len(id_.shown) == 2
                and isinstance(outcome.result, Verdict)
                and preferred(outcome.result)
            ]
            if decided:
                shown, verdict = decided[int(within * len(decided))]
                margin = abs(verdict.score_1 - verdict.score_2)
                # The preferred response first.
                pair = [group.rollouts[index] for index in shown[:: preferred(verdict)]]
                yield margin, Group(group.key, pair)

    def take(margin: float, judged: JudgedGroup) -> None:
        better, worse = (shape.answer_chars for shape in judged.shapes)
        for _, lead in _iter_leads(judged):
            audits.append(Audit(margin, lead, better - worse, judged.key))

    await auditor.compare(iter_pairs(), take)
    return audits


async def ask_canaries(dump: Dump, count: float, judges: Panel) -> dict[str, Count]:
    """Ask the judges about responses and their harmless changes; return how many changed ones won,
    by change.
    """
    won = Counter[str]()
    decided = Counter[str]()
    names = list(CANARIES)

    def iter_pairs() -> Iterator[tuple[str, Group]]:
        for within, group, judged in dump.iter_sample(count, "canary"):
            if not judged.answered:
                continue
            place = within * len(judged.answered)
            name = names[int(place % 1 * len(names))]
            rollout = group.rollouts[judged.answered[int(place)]]
            if (changed := _changed(rollout, CANARIES[name])) is not None:
                yield name, Group(f"{group.key} {name}", [changed, rollout])

    def take(name: str, judged: JudgedGroup) -> None:
        for _, lead in _iter_leads(judged):
            won[name] += lead > 0
            decided[name] += lead != 0

    await judges.compare(iter_pairs(), take)
    return {name: (won[name], decided[name]) for name in names if decided[name]}


def _changed(rollout: Rollout, change: Callable[[str], str]) -> Rollout | None:
    """Return a rollout with its last text changed; None if that changes nothing."""
    items = list(rollout.response or ())
    for place, item in reversed(list(enumerate(items))):
        if isinstance(item, Text):
            items[place] = Text(change(item.text))
            return None if items[place] == item else replace(rollout, response=tuple(items))
    return None
