"""`genrm show`: print the exact requests to the judge, or scored groups."""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import replace

from genrm_cli.cli.console import number_text, print_json, print_text, say
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.cli.tables import Table, beginning, excerpts, names, numbers, print_parts
from genrm_cli.errors import InputError, UsageError, counted
from genrm_cli.settings import Settings
from genrm_cli.settings.declare import setting
from genrm_cli.storage.location import is_scored_file, is_stream, sibling

if TYPE_CHECKING:
    from genrm_cli.groups.line_records import ComparisonRecord
    from genrm_cli.rollouts.redaction import Mask
    from genrm_cli.scored.lines import ScoredGroup

# A larger matrix fills several screens; the lines below it hold all verdicts.
_MATRIX_MOST = 32
_MASKED_CHARS = 400  # of an answer: more than an excerpt of it, with white space, needs


def show(
    invocation: Invocation,
    rollouts: list[str] = argument(
        "ROLLOUTS",
        "A JSONL file (.gz, .zst too), s3://bucket/key, - for stdin, or an output of `genrm "
        "score`. With --together, the files of a set.",
    ),
    as_judge: bool = setting(
        "For a scored file, too, print the first request for each group.", False
    ),
    group: str | None = setting("Show this group only.", metavar="KEY"),
    worst: int | None = setting(
        "For a scored file: show the N groups with the lowest reliability.", low=1
    ),
    failures: bool = setting("For a scored file: show only groups with failed comparisons.", False),
    limit: int = setting("Maximum number of groups.", 1, low=1),
    as_json: bool = setting(
        "Print JSON lines with the exact texts, including control characters.", False, key="json"
    ),
) -> None:
    """Show the exact request to the judge about the first group with comparisons. Calls no judge.

    For an output of genrm score, show rewards, the matrix of verdicts and the judge's replies, from
    the journal if the comparisons lack them.

    Accepts the settings of `genrm score` that decide what the judge sees. Control characters are
    printed as escapes such as \\x1b; --json keeps them.

    Example: genrm show rollouts.jsonl --group task:6 --model my-genrm

    Example: genrm show rollouts.scored.jsonl --worst 3
    """
    settings = invocation.settings
    is_scored = any(_is_scored(uri, settings) for uri in rollouts)
    if (worst is not None or failures) and (as_judge or not is_scored):
        raise UsageError(
            "--worst and --failures need scored lines and no --as-judge: run `genrm score` first."
        )
    if as_judge or not is_scored:
        _show_requests(rollouts, settings, group, limit, as_json)
        return
    from genrm_cli.products.report.group_document import group_document
    from genrm_cli.rollouts.redaction import mask_of

    mask = mask_of(settings.judge.redact_pattern)
    for each in _read_groups(rollouts, settings, group, worst, failures, limit):
        if as_json:
            print_json(group_document(each, mask))
        else:
            words = (_words(asked, mask) for asked in each.comparisons)
            print_parts(*iter_table_parts(each, mask), *_iter_matrix(each), *words, "")


def _is_scored(uri: str, settings: Settings) -> bool:
    """Return whether a file is named like scored lines, or the metrics next to it say that a run
    wrote it.
    """
    from genrm_cli.scored.files import find_run_record
    from genrm_cli.storage.patterns import names_many
    from genrm_cli.storage.store import Store

    if is_scored_file(uri) or is_stream(uri) or names_many(uri):
        return is_scored_file(uri)
    record = find_run_record(sibling(uri, ".metrics.json"), Store(settings.storage))
    return record is not None and record.output.rpartition("/")[2] == uri.rpartition("/")[2]


def messages_text(messages: list[dict[str, str]]) -> str:
    """Return messages as text, each below a line that names its role."""
    return "\n".join(
        f"--- message of role {message['role']}\n{message['content']}" for message in messages
    )


def _show_requests(
    rollouts: Sequence[str], settings: Settings, group: str | None, limit: int, as_json: bool
) -> None:
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.previews.shown_requests import (
        STAND_IN_PROFILE,
        iter_shown_requests,
        shows_stand_in,
    )
    from genrm_cli.rollouts.redaction import mask_of
    from genrm_cli.settings.panel import judges_of

    if shows_stand_in(judges_of(settings)[0]):
        say(f"no --model or --profile given; showing the messages of profile {STAND_IN_PROFILE}")
    run = new_run(settings)
    mask = mask_of(settings.judge.redact_pattern)
    for number, found in enumerate(islice(iter_shown_requests(rollouts, run, group), limit)):
        shown = replace(found, group=found.group and mask(found.group))
        if as_json:
            print_json(to_builtins(shown))
            continue
        if number:
            print_text()
        members = ", ".join(map(str, shown.shown))
        print_text(f"=== group {shown.group}: rollouts {members}, profile {shown.profile}")
        print_text(messages_text(shown.messages))
    if run.metrics.rejected_lines:
        say(f"{counted(run.metrics.rejected_lines, 'line')} rejected; `genrm validate` says why")


def _read_groups(
    given: Sequence[str],
    settings: Settings,
    group: str | None,
    worst: int | None,
    failures: bool,
    limit: int,
) -> "Sequence[ScoredGroup]":
    """Return groups of a scored file or set, masked: one, the least reliable ones, or the first."""
    from genrm_cli.jobs.journals import open_known_journal
    from genrm_cli.products.report.group_document import with_labels_masked
    from genrm_cli.rollouts.redaction import mask_of
    from genrm_cli.scored.files import find_scored
    from genrm_cli.scored.groups import ScoredRun
    from genrm_cli.storage.store import Store

    mask = mask_of(settings.judge.redact_pattern)
    store = Store(settings.storage)
    scored = find_scored(given, settings, store)
    if len(scored) > 1:
        raise UsageError(
            f"{scored[1].name}: show reads one file; name one, or a set of files with --together."
        )
    with ScoredRun(scored[0], settings, open_known_journal) as run:
        run.read(store)
        chosen: Iterator[ScoredGroup] = (
            each for each in run.iter_groups() if group is None or each.key == group
        )
        if failures:
            chosen = (each for each in chosen if any(asked.failure for asked in each.comparisons))
        if worst is not None:
            known = (each for each in chosen if each.line.reliability is not None)
            chosen = iter(nsmallest(worst, known, key=lambda each: each.line.reliability or 0.0))
        shown = [with_labels_masked(each, mask) for each in islice(chosen, worst or limit)]
    if group is not None and not shown:
        raise InputError(
            f"{scored[0].name}: no group {group!r} with lines to show; `genrm show "
            f"{scored[0].name} --json` has their keys."
        )
    if failures and not shown:
        say("no group has a failed comparison")
    elif worst is not None and not shown:
        say("no group has a known reliability: there are too few verdicts; try a larger --ring-k")
    return shown


def iter_table_parts(group: "ScoredGroup", mask: "Mask") -> Iterator[str | Table]:
    """Yield the heading, the beginning of the prompt and the rewards of a scored group."""
    from genrm_cli.products.report.group_document import prompt_beginning

    size = counted(len(group.members), "rollout")
    reliability = number_text(group.line.reliability, ".2f")
    yield (
        f"=== group {group.key}: {size}, judge {group.line.judge or '-'}, reliability {reliability}"
    )
    yield f"{prompt_beginning(group, mask)}\n"
    heads = numbers("reward", "rank", "advantage", "error", "chars")
    table = Table([*names("index"), *heads, *excerpts("response")])
    ordered = sorted(
        group.members,
        key=lambda each: (each.line.reward is None, -(each.line.reward or 0.0), each.line.index),
    )
    for each in ordered:
        answer = each.rollout.answer or ""
        line = each.line
        figures = (line.reward, line.rank, line.advantage, line.standard_error, len(answer))
        # Masked after the cut, as long answers would take long.
        excerpt = beginning(mask(answer[:_MASKED_CHARS]))
        table.add(str(line.index), *map(number_text, figures), excerpt or line.reason_text or "-")
    yield table


def _iter_matrix(group: "ScoredGroup") -> Iterator[str | Table]:
    """Yield the verdicts of a group of pairs, as rows of what was shown first."""
    cells: dict[tuple[int, ...], list[str]] = {}
    for asked in group.comparisons:
        if asked.is_pair:
            verdict = asked.verdict
            text = "x" if verdict is None else f"{verdict.score_1:.2g}-{verdict.score_2:.2g}"
            cells.setdefault(asked.indices, []).append(text)
    order = sorted(each.line.index for each in group.members)
    if not cells or len(order) > _MATRIX_MOST:
        return
    yield "\nverdicts (row: shown first; column: shown second; . = not asked; x = no verdict)"
    table = Table([*names(""), *numbers(*map(str, order))])
    for first in order:
        table.add(str(first), *(" ".join(cells.get((first, second), ["."])) for second in order))
    yield table


def _words(asked: "ComparisonRecord", mask: "Mask") -> str:
    shown = " and ".join(map(str, asked.indices))
    part = f", {asked.component}" if asked.component else ""
    if asked.verdict is not None:
        verdict = asked.verdict
        said = f"scores {verdict.score_1:g} and {verdict.score_2:g}, ranking {verdict.ranking:g}"
    elif asked.failure is not None:
        said = f"no verdict: {asked.failure.kind} ({mask(asked.failure.detail)})"
    else:
        grades = ["-" if grade is None else f"{grade:g}" for grade in asked.grades or ()]
        said = f"grades {', '.join(grades)}"
    reply = f"\n{mask(asked.reply).strip()}" if asked.reply else ""
    return f"\n--- {asked.judge} on {shown}{part}: {said}{reply}"
