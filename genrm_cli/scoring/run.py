"""Score an input: the same lines with rewards, and a summary of how far to trust them."""

import asyncio
import hashlib
import platform
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from genrm_cli import __version__
from genrm_cli.errors import InputError, TooManyUnscoredError, UsageError
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lexical import LEXICAL_VERSION
from genrm_cli.rollouts.dialects import Score
from genrm_cli.rollouts.grouping import GroupTable
from genrm_cli.scoring.book import ScoreBook
from genrm_cli.scoring.context import Run
from genrm_cli.scoring.judge_groups import judge_groups
from genrm_cli.scoring.judges import check_judge, profile_of
from genrm_cli.scoring.survey import Reject, dialect_of, iter_duplicates, survey
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import state_folder
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.lines import Line
from genrm_cli.storage.location import is_s3, is_stream, parse_s3_uri, require_rl_prefix, sibling, stem_of
from genrm_cli.storage.records import parse_record_exactly, render_document, render_record
from genrm_cli.storage.sink import Outputs, Sink, check_writable, goes_out_at_once, is_same_place
from genrm_cli.storage.source import Source, open_source
from genrm_cli.summary import Tally, summarise

_NAMED_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class OutputPlaces:
    """Where the outputs of a run go; None beside a stream or pipe, where there is no place."""

    scored: str
    comparisons: str | None = None
    rejects: str | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a finished run says of itself.

    Attributes:
        metrics: the object that is written beside the output.
        samples: rewards of the first groups with the beginnings of their answers, for a person to look at.
    """

    metrics: dict[str, Any]
    samples: list[dict[str, Any]]


def score_input(input_uri: str, run: Run) -> Report:
    """Score one input and write its outputs, all of them or none.

    Args:
        input_uri: a path, `s3://bucket/key`, or `-`.
        run: settings, tally and events.

    Raises:
        GenrmError: its subclasses say what went wrong; no output has appeared then.
    """
    started_s = time.monotonic()
    settings, tally = run.settings, run.tally
    check_judge(settings)
    places = output_places(input_uri, settings)
    check_writable(places.scored, run.s3)
    with Outputs(run.s3, overwrite=settings.overwrite) as outputs, ScoreBook() as book:
        scored, comparisons, rejects, metrics_sink = (
            outputs.open(uri) if uri else None
            for uri in (places.scored, places.comparisons, places.rejects, places.metrics)
        )
        with open_source(input_uri, run.s3, settings.max_line_bytes) as source, ExitStack() as stack:
            table = survey(source, settings, tally, lambda reject: _write_record(rejects, reject.as_dict()))
            _refuse_unreadable(source, settings, tally)
            if settings.strict:
                refuse_problems(source, table, settings, tally)
            book.prepare(len(table))
            path = journal_path(places.scored, settings)
            journal = stack.enter_context(Journal(path)) if path is not None else None
            _run_until_interrupted(judge_groups(source, table, run, book, journal, started_s))
            _write_scored_lines(source, table, settings, tally, book, scored)
            source.verify_unchanged()
        for block in book.iter_comparison_blocks():
            _write(comparisons, block)
        metrics = _metrics(source, places, settings, tally, time.monotonic() - started_s) | {"journal": path}
        _write(metrics_sink, render_document(metrics))
        outputs.commit()
        return Report(metrics, book.samples())


def journal_path(scored_uri: str, settings: Settings) -> str | None:
    """Return where the verdicts of a run are kept; None if they are not.

    Beside a local output; those of S3 objects and streams have a file each in the user's state folder.
    """
    if not settings.use_journal or settings.judge is not None:
        return None
    if settings.journal is not None:
        return settings.journal
    if is_s3(scored_uri) or goes_out_at_once(scored_uri):
        name = hashlib.sha256(scored_uri.encode()).hexdigest()[:16]
        return str(state_folder() / f"{name}.journal.sqlite")
    return sibling(scored_uri, ".journal.sqlite")


def output_places(input_uri: str, settings: Settings) -> OutputPlaces:
    """Work out where the outputs of a run go.

    Raises:
        UsageError: the output is the input, or S3 results would not lie under `rl/`.
    """
    if is_s3(input_uri):
        parse_s3_uri(input_uri)  # before anything is derived from it
    scored = settings.output
    if scored is None:
        scored = input_uri if is_stream(input_uri) else stem_of(input_uri) + ".scored.jsonl"
    require_rl_prefix(scored, settings.any_prefix)
    if goes_out_at_once(scored):
        return OutputPlaces(scored)
    places = OutputPlaces(
        scored,
        comparisons=sibling(scored, ".comparisons.jsonl"),
        rejects=sibling(scored, ".rejects.jsonl"),
        metrics=sibling(scored, ".metrics.json"),
    )
    for uri in (places.scored, places.comparisons, places.rejects, places.metrics):
        if uri is not None and is_same_place(uri, input_uri):
            raise UsageError(f"the output {uri} is the input; choose another output with -o.")
    return places


def refuse_unscored(tally: Tally, settings: Settings) -> None:
    """Refuse a finished run of which too much stayed unscored.

    Raises:
        TooManyUnscoredError: it was stopped before its end, or more than `max_unscored` of the rollouts in groups of
            two and more have no reward.
    """
    if tally.stopped_by is not None:
        raise TooManyUnscoredError(
            f"the run was stopped by --{tally.stopped_by.replace('_', '-')}: the outputs are partial, "
            f"{tally.failures['not_asked']} comparisons were not asked. Run the same command again with --overwrite: "
            "verdicts that a journal keeps are not asked again."
        )
    if tally.unscored_share() > settings.max_unscored:
        reasons = "; ".join(f"{count} × {reason}" for reason, count in tally.reasons.most_common())
        raise TooManyUnscoredError(
            f"{tally.unscored_in_groups} of {tally.rollouts_in_groups} rollouts in groups stayed unscored, "
            f"more than --max-unscored {settings.max_unscored:g} allows: {reasons}."
        )


def refuse_problems(source: Source, table: GroupTable, settings: Settings, tally: Tally) -> None:
    """Refuse an input with bad lines or rollouts that are there twice, naming the first few.

    Raises:
        InputError: there are some.
    """
    problems = []
    if tally.rejects:
        problems.append(f"{tally.rejects} bad lines ({_first_rejects(source, settings)})")
    if tally.duplicates:
        lines = [f"line {place.line}" for place in iter_duplicates(table)]
        problems.append(f"{tally.duplicates} rollouts are there twice ({', '.join(lines[:_NAMED_PROBLEMS])})")
    if problems:
        raise InputError(
            f"{source.uri}: --strict refuses {' and '.join(problems)}. Mend them, or leave --strict out: "
            "bad lines then go to the rejects, and the rest is scored."
        )


def _refuse_unreadable(source: Source, settings: Settings, tally: Tally) -> None:
    """Refuse an input of which no line can be read: most likely it is not what it was taken for.

    Raises:
        InputError: there are lines, and all of them are bad.
    """
    if tally.rollouts or not tally.lines:
        return
    start = next(source.iter_lines()).raw
    hint = next((hint for mark, hint in _LOOKS_LIKE.items() if start.startswith(mark)), "")
    raise InputError(
        f"{source.uri}: none of its {tally.lines} lines is a rollout ({_first_rejects(source, settings)}). {hint}"
        "`genrm validate` shows more; expected is one JSON object a line."
    )


_LOOKS_LIKE = {
    b"\x1f\x8b": "It looks compressed with gzip: name it .gz. ",
    b"\x28\xb5\x2f\xfd": "It looks compressed with zstandard: name it .zst. ",
    b"\xff\xfe": "It looks like UTF-16: convert it to UTF-8. ",
    b"[": "It looks like one JSON array: write its items as lines. ",
}


def _first_rejects(source: Source, settings: Settings) -> str:
    first: list[Reject] = []
    survey(source, settings, Tally(), first.append)
    return "; ".join(f"line {reject.line}: {reject.reason}" for reject in first[:_NAMED_PROBLEMS])


def _run_until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error  # SIGTERM


def _write_scored_lines(
    source: Source, table: GroupTable, settings: Settings, tally: Tally, book: ScoreBook, sink: Sink | None
) -> None:
    """Write every line that could be read, in input order, with its rewards."""
    row = 0
    for line in source.iter_lines():
        scores = []
        while row < len(table) and table.place(row).line == line.number:
            scores.append(book.read_score(row))
            row += 1
        if not scores:
            continue
        if settings.unscored == "drop" and all(score.reward is None for score in scores):
            tally.lines_dropped += 1
            continue
        _write_record(sink, _annotated(line, scores, settings))


def _annotated(line: Line, scores: list[Score], settings: Settings) -> dict[str, Any]:
    if settings.unscored not in ("null", "drop"):
        given = float(settings.unscored)
        scores = [score if score.reward is not None else Score(given, score.detail) for score in scores]
    record = parse_record_exactly(line.raw)
    dialect_of(record, settings).annotate(record, scores)
    return record


def _metrics(
    source: Source, places: OutputPlaces, settings: Settings, tally: Tally, wall_time_s: float
) -> dict[str, Any]:
    identity = source.identity
    embedded = settings.judge is not None
    return {
        "input": {
            "uri": identity.uri,
            "size_bytes": identity.size_bytes,
            "etag": identity.etag,
            "mtime_ns": identity.mtime_ns,
        },
        "output": places.scored,
        "partial": tally.stopped_by is not None,
        "judge": {
            "name": LEXICAL_VERSION if embedded else settings.model,
            "stand_in": embedded,
            "base_urls": list(settings.base_url),
            "profile": None if embedded else profile_of(settings).name,
            "profile_version": None if embedded else profile_of(settings).version,
            "compat": settings.compat,
        },
        "strategy": settings.strategy,
        "judges": settings.judges,
        **summarise(tally, wall_time_s),
        "settings_digest": digest_of(settings),
        "versions": {"genrm": __version__, "python": platform.python_version()},
    }


def _write(sink: Sink | None, data: bytes) -> None:
    if sink is not None:
        sink.write(data)


def _write_record(sink: Sink | None, record: dict[str, Any]) -> None:
    _write(sink, render_record(record))
