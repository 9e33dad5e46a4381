"""The data of a report, run by run: figures, tags and groups, for the page and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from genrm_cli.errors import InputError
from genrm_cli.jobs.journals import open_known_journal
from genrm_cli.json_types import Record, field_at
from genrm_cli.metrics.group_measures import NOISY_BELOW
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.products.report.blocks import Blocks
from genrm_cli.products.report.charts import number_text
from genrm_cli.products.report.group_document import (
    group_document,
    prompt_beginning,
    rounded,
    with_labels_masked,
)
from genrm_cli.products.report.measure_group import GroupFigures, measure_group
from genrm_cli.products.report.report_figures import (
    RunFigures,
    facts_of,
    figures_of,
    reason_text,
)
from genrm_cli.rollouts.redaction import mask_of
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.trust import Trust, judge_trust
from genrm_cli.settings import Settings
from genrm_cli.storage.store import Store

# Of one group, whose correlation over a few rollouts varies more than the mean over groups.
_LENGTH_WINS = 0.5


class Tag(Struct):
    """A named set of groups, by their numbers on the page."""

    label: str
    groups: list[int] = []


def tags_of(start: int, figures: RunFigures, groups: Sequence[GroupFigures]) -> dict[str, Tag]:
    """Return the tags of a run, whose first group has the number `start` on the page."""
    tags: dict[str, Tag] = {}
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
                tag = tags.setdefault(f"{name}-{bin_}", Tag(f"{words} from {low} to {high}"))
                tag.groups.append(number)
        for name, label in _iter_marks(group):
            tags.setdefault(name, Tag(label)).groups.append(number)
    return tags


def _iter_marks(group: GroupFigures) -> Iterator[tuple[str, str]]:
    """Yield the names and labels of the tags that a group has by itself."""
    measures = group.measures
    effect = measures.length_effect
    marks = (
        ("all", "all groups", True),
        ("baseline", "judged by the built-in baseline", group.is_baseline),
        ("unscored", "rollouts without a reward", group.unscored),
        ("no-spread", "equal rewards", measures.is_flat),
        ("noisy", f"mostly noise (reliability below {NOISY_BELOW})", measures.is_noisy),
        ("failed", "comparisons without a verdict", group.failures),
        ("not-asked", "comparisons that were not asked", group.not_asked),
        ("flips", "pairs that flip when swapped", measures.verdicts.flips),
        ("long-wins", "a strong length effect", effect is not None and abs(effect) > _LENGTH_WINS),
        ("repeated", "responses repeated", group.duplicates),
    )
    for name, label, holds in marks:
        if holds:
            yield name, label
    for kind in group.failures:
        yield f"failure-{kind}", f"failures of kind {kind}"
    for name in group.varying:
        yield f"component-{name}", f"rollouts that differ in {name}"
    for reason in group.unscored:
        yield f"reason-{reason}", f"unscored: {reason_text(reason)}"


_FIGURES = ["key", "size", "mean", "spread", "reliability", "length", "failed"]
COLUMNS = [*_FIGURES, "run", "prompt", "rewards", "at"]
"""Columns of the index; `at` is the number of the block and the position in it."""

Row = list[Any]


class RunPage(Struct, frozen=True):
    """One run on the page.

    Attributes:
        rows: of the index, one a group, as `COLUMNS` name them.
        tags: the groups behind each number.
        rejected: lines that are not scored lines.
        so_far: how much of a run that has not ended is judged; None for an output.
    """

    figures: RunFigures
    trust: Trust
    groups: Sequence[GroupFigures]
    rows: Sequence[Row]
    tags: Mapping[str, Tag]
    rejected: int
    so_far: str | None = None

    def as_dict(self) -> Record:
        """Return all numbers of the run on the page, JSON-ready."""
        return {
            **to_builtins(self.figures),
            "rejected_lines": self.rejected,
            "so_far": self.so_far,
            "answer": self.trust.answer,
            "weight": self.trust.weight,
            "reasons": to_builtins(self.trust.reasons),
            "groups_with": {name: len(tag.groups) for name, tag in self.tags.items()},
            "by_group": [dict(zip(_FIGURES, row, strict=False)) for row in self.rows],
        }


def read_run(
    number: int, start: int, scored: ScoredInput, settings: Settings, blocks: Blocks
) -> RunPage:
    """Read a run and pack its groups, the first of which has the number `start` on the page."""
    mask = mask_of(settings.judge.redact_pattern)
    judge = None
    rows = list[Row]()
    measured = list[GroupFigures]()
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
            measured.append(figures)
            rows.append(_row(number, figures, blocks.add(group_document(group, mask))))
            judge = judge or group.line.judge
        summary = sessions.summary()
        prices = (settings.limits.price_in, settings.limits.price_out)
        figures_of_run = figures_of(scored.name, measured, run.metrics, judge, summary, prices)
        account = figures_of_run.account
        if account is not None:
            named = tuple(map(mask, account.failing))  # by their keys, masked as everywhere
            figures_of_run = replace(figures_of_run, account=replace(account, failing=named))
        so_far = None
        if scored.unfinished is not None and account is not None:
            so_far = account.done_text
            # Once all is asked, nothing is missing but the outputs.
            partial = so_far if account.not_asked else None
            figures_of_run = replace(figures_of_run, partial=partial)
        trust = judge_trust(facts_of(figures_of_run), has_comparisons=run.has_comparisons)
        tags = tags_of(start, figures_of_run, measured)
        rejected = run.rejects.total()
        return RunPage(figures_of_run, trust, measured, rows, tags, rejected, so_far)


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


def page_values(runs: Sequence[RunPage], mask_patterns: Sequence[str]) -> Record:
    """Return the values of the template."""
    figures = [run.figures for run in runs]
    names = ", ".join(each.uri.rpartition("/")[2] for each in figures)
    return {
        "title": f"Report on {names}",
        "runs": runs,
        "prompts": [{group.key: group.prompt for group in run.groups} for run in runs],
        "mask_patterns": mask_patterns,
        # Those without a metrics file, whose time is unknown, are last.
        "in_time": sorted(enumerate(runs), key=lambda each: each[1].figures.time or "unknown"),
        "mixed": len({(each.judge, each.settings_digest) for each in figures}) > 1,
    }


def page_index(runs: Sequence[RunPage]) -> Record:
    """Return the index of all groups, for the script of the page."""
    return {
        "runs": [{"uri": run.figures.uri} for run in runs],
        "columns": COLUMNS,
        "groups": [row for run in runs for row in run.rows],
        "tags": {
            f"{number}-{name}": to_builtins(tag)
            for number, run in enumerate(runs)
            for name, tag in run.tags.items()
        },
    }
