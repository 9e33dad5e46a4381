"""The calls that watching takes: sentinels, audits and canaries. None of them is recalled from a
journal.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

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
from genrm_cli.verdicts import Outcome, Verdict, preferred
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
        for request, outcome in judged.results:
            lead = _lead(outcome, request.shown)
            if lead is not None:
                verdicts[request.judge * len(sentinels) + place] = "=+-"[lead]

    await judges.compare(enumerate(sentinels), take)
    return "".join(verdicts)


def _lead(outcome: Outcome, shown: Sequence[int]) -> int | None:
    """Return 1 if a verdict prefers the first rollout of the group, -1 for the other, 0 for a tie;
    None without one.
    """
    if not isinstance(outcome.result, Verdict):
        return None
    return preferred(outcome.result) * (1 if shown[0] == 0 else -1)


@dataclass(slots=True)
class Audits:
    """The verdicts of an auditor on pairs that the judge decided; a tie is a disagreement.

    Attributes:
        strata: disagreements and all audits by the margin of the judge.
        longer: by how many pairs more than the auditor the judge preferred the longer response;
            `lengths`: of how many.
        disagreements: the judge's margin and the group of each disagreement.
    """

    strata: list[list[int]] = field(
        default_factory=lambda: [[0, 0] for _ in range(len(MARGINS) + 1)]
    )
    longer: float = 0.0
    lengths: int = 0
    disagreements: list[tuple[float, str]] = field(default_factory=list)

    def add(self, margin: float, lead: int, judged: JudgedGroup) -> None:
        """Add an audit of a pair whose first rollout the judge prefers; `lead` is the auditor's."""
        stratum = self.strata[sum(margin > bound for bound in MARGINS)]
        stratum[0] += lead < 1
        stratum[1] += 1
        better, worse = (shape.answer_chars for shape in judged.shapes)
        if better != worse:
            self.longer += (1 - lead) / 2 if better > worse else (lead - 1) / 2
            self.lengths += 1
        if lead < 1:
            self.disagreements.append((margin, judged.key or ""))

    def into(self, found: WatchRecord) -> WatchRecord:
        """Return a record with these audits."""
        widest = sorted(self.disagreements, reverse=True)
        return replace(
            found,
            audits=tuple((bad, count) for bad, count in self.strata),
            audit_length=self.longer / self.lengths if self.lengths else None,
            look_at=tuple(key for _, key in widest[:_NAMED_GROUPS]),
        )


async def ask_auditor(dump: Dump, count: float, auditor: Panel) -> Audits:
    """Ask the auditor about pairs that the first judge decided, at most one in each group."""
    audits = Audits()

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
                (i, j), verdict = decided[int(within * len(decided))]
                pair = (i, j) if preferred(verdict) > 0 else (j, i)
                margin = abs(verdict.score_1 - verdict.score_2)
                yield margin, Group(group.key, [group.rollouts[index] for index in pair])

    def take(margin: float, judged: JudgedGroup) -> None:
        for id_, outcome in judged.results:
            if (lead := _lead(outcome, id_.shown)) is not None:
                audits.add(margin, lead, judged)

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
        for id_, outcome in judged.results:
            lead = _lead(outcome, id_.shown)
            if lead:
                won[name] += lead > 0
                decided[name] += 1

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
