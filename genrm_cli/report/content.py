"""All that a report holds, as the page's template and script take it, and as figures in JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from genrm_cli.report.compare_runs import Comparison
from genrm_cli.report.drift import cells_of, in_time, iter_changes, iter_series
from genrm_cli.report.figures import FORMAT
from genrm_cli.report.judge_quality import QualityTable
from genrm_cli.report.page.group_document import rounded
from genrm_cli.report.page.render_page import draw_points
from genrm_cli.report.page.tags import Tags
from genrm_cli.report.run_page import COLUMNS, Row, RunPage

_LISTED = 20


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of all inputs.

    Attributes:
        runs: in the order given.
        tags: which groups stand behind each number.
        rows: of the index, one a group, as `COLUMNS` name them.
        comparison: of two runs.
        qualities: results of `genrm eval`.
    """

    runs: Sequence[RunPage]
    tags: Tags
    rows: Sequence[Row]
    comparison: Comparison | None
    qualities: Sequence[QualityTable]

    def page_values(self, mask_patterns: Sequence[str]) -> dict[str, Any]:
        """Return what the template takes."""
        figures = [run.figures for run in self.runs]
        return {
            "title": "Report on scored rollouts" if self.runs else "Report on judges",
            "runs": self.runs,
            "tags": self.tags.by_name,
            "mask_patterns": mask_patterns,
            "dumps": self._dumps() if len(self.runs) > 1 else [],
            "mixed": len({(each.judge, each.settings_digest) for each in figures}) > 1,
            "changes": list(iter_changes(figures)),
            "charts": [(name, draw_points(points, name)) for name, points in iter_series(figures)],
            "comparison": self.comparison,
            "listed": self._listed(),
            "qualities": self.qualities,
        }

    def page_index(self) -> dict[str, Any]:
        """Return what the script knows of all groups."""
        return {
            "runs": [{"uri": run.figures.uri} for run in self.runs],
            "columns": COLUMNS,
            "groups": self.rows,
            "tags": {name: {"label": tag.label, "groups": tag.groups} for name, tag in self.tags.by_name.items()},
            "compared": self._compared(),
        }

    def figures(self, output: str) -> dict[str, Any]:
        """Return every figure of the page, JSON-ready."""
        return {
            "format": FORMAT,
            "output": output,
            "runs": [run.as_dict(self.rows, self.tags) for run in self.runs],
            "changes": [asdict(change) for change in iter_changes([run.figures for run in self.runs])],
            "comparison": self._comparison_record(),
            "judges": [asdict(quality) for quality in self.qualities],
        }

    def _comparison_record(self) -> dict[str, Any] | None:
        """Return a comparison with the keys of its groups instead of their numbers on the page."""
        if self.comparison is None:
            return None
        record = asdict(self.comparison)
        for each in record["matched"]:
            each["groups"] = [self.rows[number][1] for number in each.pop("numbers")]
        return record

    def _dumps(self) -> list[dict[str, Any]]:
        """Return the rows of the table of dumps, in time."""
        ordered = [self.runs[number] for number in in_time([run.figures for run in self.runs])]
        return [
            {
                "run": run.number,
                "name": run.figures.uri.rpartition("/")[2],
                "time": (run.figures.time or "unknown")[:16].replace("T", " "),
                "judge": run.figures.judge,
                "cells": cells_of(run.figures),
            }
            for run in ordered
        ]

    def _listed(self) -> list[dict[str, Any]]:
        """Return the groups whose ranks changed most, with links."""
        if self.comparison is None:
            return []
        first = [(self.rows[each.numbers[0]][1], each.correlation) for each in self.comparison.matched[:_LISTED]]
        return [{"key": key, "hash": self.runs[0].hash_of(key), "correlation": found} for key, found in first]

    def _compared(self) -> dict[str, Any]:
        """Return for each matched group, both ways: the other, and the indices and ranks here and there."""
        found: dict[str, Any] = {}
        for each in () if self.comparison is None else self.comparison.matched:
            here, there = each.numbers
            back = [(b, a, rank_b, rank_a) for a, b, rank_a, rank_b in each.rows]
            found[str(here)] = {"other": there, "correlation": rounded(each.correlation), "rows": each.rows}
            found[str(there)] = {"other": here, "correlation": rounded(each.correlation), "rows": back}
        return found
