"""Tags: which groups stand behind each number of the page."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from genrm_cli.metrics.summary import NOISY_BELOW
from genrm_cli.report.figures import Histogram, RunFigures
from genrm_cli.report.measure_group import GroupFigures
from genrm_cli.report.page.charts import number_text

_LENGTH_WINS = 0.5


@dataclass(slots=True)
class Tag:
    """A named set of groups, by their numbers on the page."""

    label: str
    groups: list[int] = field(default_factory=list)


class Tags:
    """The tags of all runs by name; each run has a prefix of its own."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tag] = {}

    def add(self, name: str, label: str, group: int) -> None:
        """Tag a group."""
        groups = self.by_name.setdefault(name, Tag(label)).groups
        if not groups or groups[-1] != group:
            groups.append(group)

    def add_run(self, run: int, start: int, figures: RunFigures, groups: Sequence[GroupFigures]) -> None:
        """Tag the groups of a run, whose first one has the number `start`."""
        histograms = {
            "reward": (figures.reward_histogram, "a reward"),
            "spread": (figures.spread_histogram, "a spread"),
            "reliability": (figures.reliability_histogram, "a reliability"),
            "length": (figures.length_histogram, "a length effect"),
        }
        for number, group in enumerate(groups, start):
            named: dict[str, list[float | None]] = {
                "reward": list(group.rewards),
                "spread": [group.spread],
                "reliability": [group.reliability],
                "length": [group.length_effect],
            }
            for name, values in named.items():
                histogram, words = histograms[name]
                for bin_ in sorted({histogram.bin_of(value) for value in values if value is not None}):
                    self.add(f"{run}-{name}-{bin_}", f"{words} {_range_text(histogram, bin_)}", number)
            for name, label in _marks(group):
                self.add(f"{run}-{name}", label, number)


def _marks(group: GroupFigures) -> list[tuple[str, str]]:
    """Return the names and labels of the tags that a group has by itself."""
    effect = group.length_effect
    marks = (
        ("all", "all groups", True),
        ("baseline", "judged by the built-in baseline", group.is_baseline),
        ("unscored", "rollouts without a reward", bool(group.unscored)),
        ("no-spread", "equal rewards", group.spread is not None and group.spread < 1e-9),
        ("noisy", f"mostly noise (reliability below {NOISY_BELOW})", (group.reliability or 0.0) < NOISY_BELOW),
        ("failed", "comparisons without a verdict", bool(group.failures)),
        ("not-asked", "comparisons that were not asked", bool(group.not_asked)),
        ("flips", "pairs that flip when swapped", bool(group.flips)),
        ("circular", "circular triples", bool(group.circular)),
        ("long-wins", "a strong length effect", effect is not None and abs(effect) > _LENGTH_WINS),
        ("repeated", "responses repeated", bool(group.duplicates)),
    )
    named = [(name, label) for name, label, holds in marks if holds and not _unknown(name, group)]
    kinds = [(f"failure-{kind}", f"failures of kind {kind}") for kind in group.failures]
    kinds += [(f"component-{name}", f"rollouts that differ in {name}") for name in group.varying]
    return named + kinds + [(f"reason-{reason}", f"unscored: {reason}") for reason in group.unscored]


def _unknown(name: str, group: GroupFigures) -> bool:
    return name == "noisy" and group.reliability is None


def _range_text(histogram: Histogram, bin_: int) -> str:
    low, high = histogram.edges[bin_ : bin_ + 2]
    return f"from {number_text(low)} to {number_text(high)}"
