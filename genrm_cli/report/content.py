"""The data of a report, run by run: figures, tags and groups, for the page and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.jobs.journals import open_known_journal
from genrm_cli.json_types import Record, field_at
from genrm_cli.metrics.group_measures import NOISY_BELOW
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.report.blocks import Blocks
from genrm_cli.report.charts import number_text
from genrm_cli.report.figures import FORMAT, RunFigures, figures_of, reason_text
from genrm_cli.report.group_document import (
    group_document,
    mask_of,
    prompt_beginning,
    rounded,
    with_labels_masked,
)
from genrm_cli.report.judge_trust import Trust, judge_trust
from genrm_cli.report.measure_group import GroupFigures, measure_group
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.settings import Settings
from genrm_cli.storage.store import Store

# Of one group, whose correlation over a few rollouts varies more than the mean over groups.
_LENGTH_WINS = 0.5


@dataclass(slots=True)
class Tag:
    """A named set of groups, by their numbers on the page."""

    label: str
    groups: list[int] = field(default_factory=list)


def add_tags(
    tags: dict[str, Tag], run: int, start: int, figures: RunFigures, groups: Sequence[GroupFigures]
) -> None:
    """Add the tags of a run, whose first group has the number `start`, by names with a prefix of
    its own.
    """
    for number, group in enumerate(groups, start):
        of = group.measures
        for name, words, histogram, values in (
            ("reward", "a reward", figures.reward_histogram, of.rewards),
            ("spread", "a spread", figures.spread_histogram, [of.spread]),
            ("reliability", "a reliability", figures.reliability_histogram, [of.reliability]),
            ("length", "a length effect", figures.length_histogram, [of.length_effect]),
        ):
            for bin_ in sorted({histogram.bin_of(value) for value in values if value is not None}):
                low, high = map(number_text, histogram.edges[bin_ : bin_ + 2])
                tags.setdefault(
                    f"{run}-{name}-{bin_}", Tag(f"{words} from {low} to {high}")
                ).groups.append(number)
        for name, label in _marks(group):
            tags.setdefault(f"{run}-{name}", Tag(label)).groups.append(number)


def _marks(group: GroupFigures) -> list[tuple[str, str]]:
    """Return the names and labels of the tags that a group has by itself."""
    measures = group.measures
    effect = group.measures.length_effect
    marks = (
        ("all", "all groups", True),
        ("baseline", "judged by the built-in baseline", group.is_baseline),
        ("unscored", "rollouts without a reward", bool(group.unscored)),
        ("no-spread", "equal rewards", measures.is_flat),
        ("noisy", f"mostly noise (reliability below {NOISY_BELOW})", measures.is_noisy),
        ("failed", "comparisons without a verdict", bool(group.failures)),
        ("not-asked", "comparisons that were not asked", bool(group.not_asked)),
        ("flips", "pairs that flip when swapped", bool(measures.verdicts.flips)),
        ("long-wins", "a strong length effect", effect is not None and abs(effect) > _LENGTH_WINS),
        (
            "caused_failures",
            "rollouts that make the judge fail",
            bool(group.caused_failures),
        ),
        ("repeated", "responses repeated", bool(group.duplicates)),
    )
    named = [(name, label) for name, label, holds in marks if holds]
    kinds = [(f"failure-{kind}", f"failures of kind {kind}") for kind in group.failures]
    kinds += [(f"component-{name}", f"rollouts that differ in {name}") for name in group.varying]
    return (
        named
        + kinds
        + [(f"reason-{reason}", f"unscored: {reason_text(reason)}") for reason in group.unscored]
    )


_FIGURES = ["key", "size", "mean", "spread", "reliability", "length", "failed"]
COLUMNS = [*_FIGURES, "run", "prompt", "rewards", "at"]
"""Columns of the index; `at` is the number of the block and the position in it."""

Row = list[Any]


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run on the page.

    Attributes:
        start: number of its first group on the page.
        rejected: lines that are not scored lines.
    """

    number: int
    start: int
    figures: RunFigures
    trust: Trust
    groups: Sequence[GroupFigures]
    rejected: int

    def as_dict(self, rows: Sequence[Row], tags: Mapping[str, Tag]) -> Record:
        """Return all numbers of the run on the page, JSON-ready, from the index and the tags of all
        runs.
        """
        index_rows = rows[self.start : self.start + len(self.groups)]
        prefix = f"{self.number}-"
        return {
            **asdict(self.figures),
            "rejected_lines": self.rejected,
            "answer": self.trust.answer,
            "weight": self.trust.weight,
            "reasons": self.trust.reasons,
            "groups_with": {
                name.removeprefix(prefix): len(tag.groups)
                for name, tag in tags.items()
                if name.startswith(prefix)
            },
            "by_group": [dict(zip(_FIGURES, row, strict=False)) for row in index_rows],
        }


def read_run(
    number: int,
    scored: ScoredInput,
    settings: Settings,
    blocks: Blocks,
    rows: list[Row],
) -> RunPage:
    """Read a run, pack its groups, and add their rows to the index."""
    mask = mask_of(settings.judge.redact_pattern)
    start = len(rows)
    judge = None
    measured = list[GroupFigures]()
    components: dict[str, list[float]] = {}
    keys = Counter[str]()
    sessions = SessionMetrics()
    with ScoredRun(scored, settings, open_known_journal, _kept_of) as run:
        run.read(Store(settings.storage))
        if not len(run):
            raise InputError(f"{run.name}: it is empty; expected an output of `genrm score`")
        for scored_group in run.iter_groups():
            group = with_labels_masked(scored_group, mask)
            keys[group.key] += 1
            if keys[group.key] > 1:  # masking made two keys equal, which must lead to two groups
                group = replace(group, key=f"{group.key} ({keys[group.key]})")
            figures = measure_group(group, prompt_beginning(group, mask))
            for each in group.members:
                sessions.add(each.record, each.line.reward, mask)
                for name, value in (each.line.components or {}).items():
                    components.setdefault(name, []).extend(() if value is None else (value,))
            measured.append(figures)
            rows.append(_row(number, figures, blocks.add(group_document(group, mask))))
            judge = judge or group.line.judge
        summary = sessions.summary()
        prices = (settings.limits.price_in, settings.limits.price_out)
        figures_of_run = figures_of(
            scored.name, measured, components, run.metrics, judge, summary, prices
        )
        trust = judge_trust(figures_of_run, has_comparisons=run.has_comparisons)
        return RunPage(number, start, figures_of_run, trust, measured, run.rejects.total())


def _kept_of(record: Record) -> Record:
    """Return what rewards of sessions are broken down by."""
    if "scenario" not in record:
        return {}
    return {
        "scenario": record["scenario"],
        "metadata": {"end_reason": field_at(record, "metadata.end_reason")},
    }


def _row(run: int, group: GroupFigures, at: tuple[int, int]) -> Row:
    """Return a row of the index, as `COLUMNS` name it."""
    of = group.measures
    mean = sum(of.rewards) / len(of.rewards) if of.rewards else None
    measured = map(rounded, (mean, of.spread, of.reliability, of.length_effect))
    rewards = [round(reward, 2) for reward in of.rewards]
    return [
        group.key,
        group.size,
        *measured,
        group.failures.total(),
        run,
        group.prompt,
        rewards,
        at,
    ]


@dataclass(frozen=True, slots=True)
class Content:
    """The data of all inputs.

    Attributes:
        runs: in the order given.
        tags: the groups behind each number.
        rows: of the index, one a group, as `COLUMNS` name them.
    """

    runs: Sequence[RunPage]
    tags: Mapping[str, Tag]
    rows: Sequence[Row]

    def page_values(self, mask_patterns: Sequence[str]) -> Record:
        """Return the values of the template."""
        figures = [run.figures for run in self.runs]
        names = ", ".join(each.uri.rpartition("/")[2] for each in figures)
        return {
            "title": f"Report on {names}" if names else "Ranking of policies",
            "runs": self.runs,
            "prompts": [{group.key: group.prompt for group in run.groups} for run in self.runs],
            "tags": self.tags,
            "mask_patterns": mask_patterns,
            # Those without a metrics file, whose time is unknown, are last.
            "in_time": sorted(self.runs, key=lambda run: run.figures.time or "unknown"),
            "mixed": len({(each.judge, each.settings_digest) for each in figures}) > 1,
        }

    def page_index(self) -> Record:
        """Return the index of all groups, for the script of the page."""
        return {
            "runs": [{"uri": run.figures.uri} for run in self.runs],
            "columns": COLUMNS,
            "groups": self.rows,
            "tags": self.tags,
        }

    def figures(self, output: str) -> Record:
        """Return every figure of the page, JSON-ready."""
        return {
            "format": FORMAT,
            "output": output,
            "runs": [run.as_dict(self.rows, self.tags) for run in self.runs],
        }
