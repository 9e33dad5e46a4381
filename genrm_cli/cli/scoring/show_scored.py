"""Scored groups in the terminal: rewards, the matrix of verdicts, and the judge's replies."""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING

from rich.table import Table

from genrm_cli.cli.console import add_row, counted, new_table, number_text, print_json, print_paged, say
from genrm_cli.errors import InputError, UsageError
from genrm_cli.settings import Settings

if TYPE_CHECKING:
    from genrm_cli.report.group_document import Mask
    from genrm_cli.scored.lines import ComparisonRecord, ScoredGroup, ScoredMember

_BEGINNING_CHARS = 60
_MAX_MATRIX = 24  # columns that fit on a terminal


def show_scored(
    given: Sequence[str],
    settings: Settings,
    *,
    group: str | None,
    worst: int | None,
    failures: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Print groups of a scored file or set: those with the lowest reliability, those with failures, one, or the first.

    Raises:
        GenrmError: its subclasses say what went wrong.
    """
    from genrm_cli.jobs.context import s3_options
    from genrm_cli.jobs.journals import open_known_journal
    from genrm_cli.report.group_document import group_document, mask_of, with_labels_masked
    from genrm_cli.scored.files import find_scored
    from genrm_cli.scored.groups import ScoredRun

    mask, s3 = mask_of(settings.judge.redact_pattern), s3_options(settings)
    scored = find_scored(given, settings, s3)
    if len(scored) > 1:
        raise UsageError(f"{scored[1].name}: show reads one file; name one, or a set of files with --together.")
    with ScoredRun(scored[0], settings, open_known_journal) as run:
        run.read(s3)
        found = (each for each in run.iter_groups() if group is None or each.key == group)
        if failures:
            found = (each for each in found if any(one.failure for one in each.comparisons))
        if worst is None:
            chosen: Iterator[ScoredGroup] = islice(found, limit)
        else:
            known = (each for each in found if each.line.reliability is not None)
            chosen = iter(nsmallest(worst, known, key=lambda each: each.line.reliability or 0.0))
        first = next(chosen, None)
        if first is None and group is not None:
            raise InputError(f"{run.name}: no group {group!r}, or nothing of it to show.")
        if first is None:
            say(
                "no group has a failed comparison"
                if worst is None
                else "no group has a known reliability: there are too few verdicts; try a larger --ring-k"
            )
            return
        chosen = chain([first], chosen)
        if as_json:
            for each in chosen:
                print_json(group_document(with_labels_masked(each, mask), mask))
        else:
            print_paged(part for each in chosen for part in _iter_parts(with_labels_masked(each, mask), mask))


def _iter_parts(group: "ScoredGroup", mask: "Mask") -> Iterator[str | Table]:
    from genrm_cli.report.group_document import prompt_beginning

    size = counted(len(group.members), "rollout")
    yield f"=== group {group.key}: {size}, reliability {number_text(group.line.reliability, '.2f')}"
    yield f"{prompt_beginning(group, mask)}\n"
    table = new_table("index", "response", "reward", "rank", "advantage", "error", "chars", texts=2)
    ordered = sorted(group.members, key=_best_first)
    for each in ordered:
        words = each.rollout.answer or ""
        line = each.line
        numbers = (line.reward, line.rank, line.advantage, line.standard_error, len(words))
        beginning = " ".join(mask(words[: 4 * _BEGINNING_CHARS]).split())[:_BEGINNING_CHARS]
        add_row(table, str(line.index), beginning or line.reason_text or "-", *map(number_text, numbers))
    yield table
    pairs = [each for each in group.comparisons if each.is_pair]
    if pairs and len(ordered) <= _MAX_MATRIX:
        yield "\nverdicts (row: shown first; column: shown second; . = not asked)"
        yield _matrix([each.line.index for each in ordered], pairs)
    for asked in group.comparisons:
        yield _words(asked, mask)
    yield ""


def _best_first(member: "ScoredMember") -> tuple[bool, float, int]:
    return member.line.reward is None, -(member.line.reward or 0.0), member.line.index


def _matrix(order: list[int], pairs: "list[ComparisonRecord]") -> Table:
    cells: dict[tuple[int, ...], list[str]] = {}
    for each in pairs:
        verdict = each.verdict
        text = "x" if verdict is None else f"{verdict.score_1:g}-{verdict.score_2:g}"
        cells.setdefault(each.indices, []).append(text)
    table = new_table("", *map(str, order))
    for first in order:
        add_row(table, str(first), *(" ".join(cells.get((first, second), ["."])) for second in order))
    return table


def _words(asked: "ComparisonRecord", mask: "Mask") -> str:
    shown = " and ".join(map(str, asked.indices))
    part = f", {asked.component}" if asked.component else ""
    if asked.verdict is not None:
        verdict = asked.verdict
        said = f"scores {verdict.score_1:g} and {verdict.score_2:g}, ranking {verdict.ranking:g}"
    elif asked.failure is not None:
        said = f"no verdict: {asked.failure.kind} ({mask(asked.failure.detail)})"
    else:
        said = f"grades {', '.join(f'{grade:g}' for grade in asked.grades or ())}"
    reply = f"\n{mask(asked.reply).strip()}" if asked.reply else ""
    return f"\n--- {asked.judge} on {shown}{part}: {said}{reply}"
