"""Write a report: read every run, measure its groups, and put all of it into one page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.export.scored.read_scored import find_inputs
from genrm_cli.report.compare_runs import Comparison, GroupContents, compare_runs, contents_of
from genrm_cli.report.drift import cells_of, in_time, iter_changes, iter_series
from genrm_cli.report.figures import FORMAT, ComponentSums, RunFigures, figures_of
from genrm_cli.report.judge_quality import read_qualities
from genrm_cli.report.measure_group import GroupFigures, measure_group
from genrm_cli.report.page.blocks import Blocks
from genrm_cli.report.page.group_document import group_document, mask_of, prompt_beginning, rounded
from genrm_cli.report.page.render_page import block_script, draw_points, iter_page
from genrm_cli.report.page.tags import Tags
from genrm_cli.report.scored_run import ScoredRun
from genrm_cli.report.trust import Trust, judge_trust
from genrm_cli.settings import Settings
from genrm_cli.storage.formats.location import S3Options, is_s3, sibling
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import goes_out_at_once, is_same_place
from genrm_cli.storage.source import mode_of

MAX_SIZE_BYTES = 150_000_000
SUFFIX = ".report.html"
_LISTED = 20
_COLUMNS = ["run", "key", "prompt", "size", "mean", "spread", "reliability", "length", "residual", "failed", "at"]


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


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A finished report: its figures, and where it is."""

    figures: dict[str, Any]
    output: str
    folder: str | None
    answers: Sequence[str]


def write_report(
    given: Sequence[str],
    output: str | None,
    settings: Settings,
    *,
    compare: bool = False,
    max_size_bytes: int = MAX_SIZE_BYTES,
) -> WrittenReport:
    """Write the report of scored files and results of `genrm eval`.

    Args:
        given: scored files, folders, prefixes and patterns; results end in `.json`.
        output: of the page; None for a name beside an only input, `report.html` for several.
        compare: whether to match the rollouts of two scored files.
        settings: how lines are read, what is masked, whether outputs may be replaced.
        max_size_bytes: a larger page keeps its groups in a folder beside it.

    Raises:
        GenrmError: its subclasses say what went wrong; no page has appeared then.
    """
    storage = settings.storage
    s3 = S3Options(storage.s3_endpoint_url, storage.s3_profile, storage.s3_region)
    results = [uri for uri in given if _is_result(uri)]
    scored = [uri for uri in given if not _is_result(uri)]
    uris = find_inputs(scored, s3) if scored else []
    if compare and len(uris) != 2:
        raise UsageError(f"--compare takes two scored files; found {len(uris)}.")
    alone = len(uris) == 1 and not results
    target = output or (sibling(uris[0], SUFFIX) if alone else "report.html")
    if any(is_same_place(uri, target) for uri in (*uris, *results)):
        raise UsageError(f"the output {target} is an input; choose another output with -o.")
    mode = reduce(int.__and__, map(mode_of, (*uris, *results)))  # as private as the most private input
    patterns = settings.judge.redact_pattern
    with Blocks() as blocks, Outputs(s3, overwrite=settings.output.overwrite, mode=mode) as outputs:
        sink = outputs.open(target)
        tags, rows, runs = Tags(), list[list[Any]](), list[RunPage]()
        for number, uri in enumerate(uris):
            start = len(rows)
            run = _add_run(number, uri, settings, blocks, rows, alone=len(uris) == 1, compare=compare)
            tags.add_run(number, start, run.figures, run.groups)
            runs.append(run)
        blocks.finish()
        folder = _folder_of(target) if blocks.size_bytes > max_size_bytes else None
        if folder is not None:
            _write_folder(Path(target).parent / folder, blocks, overwrite=settings.output.overwrite)
        comparison = compare_runs(runs[0].contents, runs[1].contents) if compare else None
        figures = [run.figures for run in runs]
        changes = list(iter_changes(figures))
        qualities = read_qualities(results, s3)
        values = {
            "title": "Report on scored rollouts" if runs else "Report on judges",
            "runs": runs,
            "tags": tags.by_name,
            "mask_patterns": patterns,
            "dumps": _dumps(runs) if len(runs) > 1 else [],
            "mixed": len({(each.judge, each.settings_digest) for each in figures}) > 1,
            "changes": changes,
            "charts": [(name, draw_points(points, name)) for name, points in iter_series(figures)],
            "comparison": comparison,
            "listed": _listed(comparison, runs, rows),
            "qualities": qualities,
        }
        index = {
            "runs": [{"uri": run.figures.uri} for run in runs],
            "columns": _COLUMNS,
            "groups": rows,
            "tags": {name: {"label": tag.label, "groups": tag.groups} for name, tag in tags.by_name.items()},
            "compared": _compared(comparison),
        }
        for piece in iter_page(values, index, blocks, folder):
            sink.write(piece)
        outputs.commit()
    record = {
        "format": FORMAT,
        "output": target,
        "runs": [_run_record(run) for run in runs],
        "changes": [asdict(change) for change in changes],
        "comparison": _comparison_record(comparison, rows),
        "judges": [asdict(quality) for quality in qualities],
    }
    return WrittenReport(record, target, folder, [run.trust.answer for run in runs])


def _comparison_record(comparison: Comparison | None, rows: list[list[Any]]) -> dict[str, Any] | None:
    """Return a comparison with the keys of its groups instead of their numbers on the page."""
    if comparison is None:
        return None
    record = asdict(comparison)
    for each in record["matched"]:
        each["groups"] = [rows[number][1] for number in each.pop("numbers")]
    return record


def _is_result(uri: str) -> bool:
    return uri.endswith(".json")


def _dumps(runs: Sequence[RunPage]) -> list[dict[str, Any]]:
    """Return the rows of the table of dumps, in time."""
    ordered = [runs[number] for number in in_time([run.figures for run in runs])]
    return [
        {
            "run": run.number,
            "name": run.figures.uri.rpartition("/")[2],
            "time": run.figures.time,
            "judge": run.figures.judge,
            "cells": cells_of(run.figures),
        }
        for run in ordered
    ]


def _listed(comparison: Comparison | None, runs: Sequence[RunPage], rows: list[list[Any]]) -> list[dict[str, Any]]:
    """Return the groups whose ranks changed most, with links."""
    if comparison is None:
        return []
    first = [(each.numbers[0], each.correlation) for each in comparison.matched[:_LISTED]]
    return [
        {"key": rows[number][1], "hash": runs[0].hash_of(rows[number][1]), "correlation": correlation}
        for number, correlation in first
    ]


def _compared(comparison: Comparison | None) -> dict[str, Any]:
    """Return for each matched group, both ways: the other, and the indices and ranks here and there."""
    found: dict[str, Any] = {}
    for each in () if comparison is None else comparison.matched:
        here, there = each.numbers
        back = [(b, a, rank_b, rank_a) for a, b, rank_a, rank_b in each.rows]
        found[str(here)] = {"other": there, "correlation": rounded(each.correlation), "rows": each.rows}
        found[str(there)] = {"other": here, "correlation": rounded(each.correlation), "rows": back}
    return found


def _run_record(run: RunPage) -> dict[str, Any]:
    reasons = [{"weight": each.weight, "text": each.text} for each in run.trust.reasons]
    return {**run.figures.as_dict(), "answer": run.trust.answer, "weight": run.trust.weight, "reasons": reasons}


def _add_run(
    number: int, uri: str, settings: Settings, blocks: Blocks, rows: list[list[Any]], *, alone: bool, compare: bool
) -> RunPage:
    """Read a run, pack its groups, and add their rows to the index."""
    mask = mask_of(settings.judge.redact_pattern)
    start, judge, measured, components = len(rows), None, list[GroupFigures](), ComponentSums()
    contents: dict[int, GroupContents] = {}
    with ScoredRun(uri, settings) as run:
        run.read()
        for found in run.iter_groups():
            group = replace(found, key=mask(found.key))
            figures = measure_group(group, prompt_beginning(group, mask))
            for each in group.rollouts:
                components.add(each.components)
            measured.append(figures)
            rows.append(_row(number, figures, blocks.add(group_document(group, mask))))
            judge = judge or group.judge
            if compare:
                contents[len(rows) - 1] = contents_of(group)
        figures_of_run = figures_of(uri, measured, components, run.metrics, judge)
        trust = judge_trust(figures_of_run, has_comparisons=run.has_comparisons)
        return RunPage(number, start, figures_of_run, trust, measured, run.rejected, alone, contents)


def _row(run: int, group: GroupFigures, at: tuple[int, int]) -> list[Any]:
    """Return a row of the index, as `_COLUMNS` name it."""
    known = [reward for reward in group.rewards if reward is not None]
    numbers = (sum(known) / len(known) if known else None, group.spread, group.reliability, group.length_effect)
    measured = map(rounded, (*numbers, group.residual))
    return [run, group.key, group.prompt, group.size, *measured, group.failures.total(), at]


def _folder_of(target: str) -> str:
    """Return the name of the folder of a page that is too large for one file.

    Raises:
        UsageError: the page does not go to a local file.
    """
    if is_s3(target) or goes_out_at_once(target):
        raise UsageError("the report is larger than --max-size; write it to a local file, or raise --max-size.")
    return f"{Path(target).name.removesuffix('.html')}_files"


def _write_folder(place: Path, blocks: Blocks, *, overwrite: bool) -> None:
    """Write the blocks; an earlier report's are replaced, and other files are left alone."""
    if place.exists() and not overwrite:
        raise UsageError(f"{place} exists; pass --force to replace it, or choose another output")
    try:
        place.mkdir(exist_ok=True)
        for earlier in place.glob("block-*.js"):
            earlier.unlink()
        for number, block in enumerate(blocks):
            (place / f"block-{number}.js").write_bytes(block_script(number, block))
    except OSError as error:
        raise StorageError(f"{place}: cannot be written: {error.strerror or error}") from error
