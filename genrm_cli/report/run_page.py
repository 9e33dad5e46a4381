"""One run on the page: its figures, its groups packed into blocks, and a row of the index for each of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from genrm_cli.jobs.context import s3_options
from genrm_cli.jobs.journals import open_known_journal
from genrm_cli.report.compare_runs import GroupContents, contents_of
from genrm_cli.report.figures import ComponentSums, RunFigures, figures_of
from genrm_cli.report.measure_group import GroupFigures, measure_group
from genrm_cli.report.page.blocks import Blocks
from genrm_cli.report.page.group_document import group_document, mask_of, prompt_beginning, rounded, with_labels_masked
from genrm_cli.report.page.tags import Tags
from genrm_cli.report.trust import Trust, judge_trust
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.settings import Settings

COLUMNS = ["run", "key", "prompt", "size", "mean", "spread", "reliability", "length", "residual", "failed", "at"]
"""What a row of the index holds; `at` are the numbers of the block and of the place in it."""
_NOT_FIGURES = ("run", "prompt", "at")

Row = list[Any]


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run on the page.

    Attributes:
        start: number of its first group on the page.
        rejected: lines that are not scored lines.
        alone: whether it is the only run.
        contents: of its groups by number, for a comparison only.
    """

    number: int
    start: int
    figures: RunFigures
    trust: Trust
    groups: Sequence[GroupFigures]
    rejected: int
    alone: bool
    contents: Mapping[int, GroupContents]

    def hash_of(self, key: str) -> dict[str, str | int]:
        """Return the parameters of the link to a group."""
        return {"group": key} if self.alone else {"group": key, "run": self.number}

    def as_dict(self, rows: Sequence[Row], tags: Tags) -> dict[str, Any]:
        """Return all that the page says of the run in numbers, JSON-ready.

        Args:
            rows: the index of all runs.
            tags: of all runs.
        """
        own = rows[self.start : self.start + len(self.groups)]
        prefix = f"{self.number}-"
        return {
            **self.figures.as_dict(),
            "rejected_lines": self.rejected,
            "answer": self.trust.answer,
            "weight": self.trust.weight,
            "reasons": [asdict(reason) for reason in self.trust.reasons],
            "groups_with": {
                name.removeprefix(prefix): len(tag.groups)
                for name, tag in tags.by_name.items()
                if name.startswith(prefix)
            },
            "by_group": [
                {name: value for name, value in zip(COLUMNS, row, strict=True) if name not in _NOT_FIGURES}
                for row in own
            ],
        }


def read_run(
    number: int, scored: ScoredInput, settings: Settings, blocks: Blocks, rows: list[Row], *, alone: bool, compare: bool
) -> RunPage:
    """Read a run, pack its groups, and add their rows to the index."""
    mask = mask_of(settings.judge.redact_pattern)
    start, judge, measured, components = len(rows), None, list[GroupFigures](), ComponentSums()
    contents: dict[int, GroupContents] = {}
    keys = Counter[str]()
    with ScoredRun(scored, settings, open_known_journal) as run:
        run.read(s3_options(settings))
        for found in run.iter_groups():
            group = with_labels_masked(found, mask)
            keys[group.key] += 1
            if keys[group.key] > 1:  # masking made two keys equal, which must lead to two groups
                group = replace(group, key=f"{group.key} ({keys[group.key]})")
            figures = measure_group(group, prompt_beginning(group, mask))
            for each in group.members:
                components.add(each.line.components or {})
            measured.append(figures)
            rows.append(_row(number, figures, blocks.add(group_document(group, mask))))
            judge = judge or group.line.judge
            if compare:
                contents[len(rows) - 1] = contents_of(group)
        figures_of_run = figures_of(scored.name, measured, components, run.metrics, judge)
        trust = judge_trust(figures_of_run, has_comparisons=run.has_comparisons)
        return RunPage(number, start, figures_of_run, trust, measured, run.rejected, alone, contents)


def _row(run: int, group: GroupFigures, at: tuple[int, int]) -> Row:
    """Return a row of the index, as `COLUMNS` name it."""
    known = [reward for reward in group.rewards if reward is not None]
    numbers = (sum(known) / len(known) if known else None, group.spread, group.reliability, group.length_effect)
    measured = map(rounded, (*numbers, group.residual))
    return [run, group.key, group.prompt, group.size, *measured, group.failures.total(), at]
