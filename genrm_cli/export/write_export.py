"""Export scored rollouts: read, choose, render, and write all outputs or none."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from genrm_cli.errors import InputError, Message, SettingRef, UsageError
from genrm_cli.export.balance import validation_prompts
from genrm_cli.export.candidates import message_of
from genrm_cli.export.export_options import ExportOptions
from genrm_cli.export.make_rows import RowMaker
from genrm_cli.export.manifest import manifest_of, warnings_of
from genrm_cli.export.read_scored import Reading, read_scored
from genrm_cli.export.rows import ExportFormat, Unit
from genrm_cli.export.scored_table import ComparedVerdicts, ScoredTable
from genrm_cli.jobs.context import s3_options
from genrm_cli.json_types import Record
from genrm_cli.scored.files import ScoredInput, find_scored
from genrm_cli.scored.groups import open_comparisons
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.parquet import ParquetWriter
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.location import S3Options, require_rl_prefix, sibling, stem_of
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import is_same_place, is_streamed
from genrm_cli.storage.source import mode_of

TRAIN, VALIDATION = "train", "validation"
_MANIFEST = ".manifest.json"
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".parquet")
_OF_PAIRS = (
    "pairs",
    "top",
    "min_gap",
    "max_length_ratio",
    "balance_length",
    "max_similarity",
    "max_pairs_per_prompt",
)
_USED_BY: Mapping[str, tuple[Unit, ...]] = {
    **dict.fromkeys(_OF_PAIRS, ("pair",)),
    "min_confidence": ("pair", "sample"),
    "best_of": ("sample",),
    "min_reward": ("sample",),
    "threshold": ("label",),
}
"""Options that some kinds of rows ignore, with those that obey them."""
_DEFAULTS = ExportOptions()


@dataclass(frozen=True, slots=True)
class ExportReport:
    """A finished export: its manifest, and the code that loads it."""

    manifest: Record
    usage: str


def export(
    given: Sequence[str], output: str, format_: ExportFormat, options: ExportOptions, settings: Settings
) -> ExportReport:
    """Write the data set of a format, its validation split and its manifest, all of them or none.

    Args:
        given: scored files, folders, prefixes and patterns.
        output: URI of the rows.
        format_: format of the rows.
        options: choice of the rows.
        settings: for reading lines and writing outputs.

    Raises:
        GenrmError: its subclasses say what went wrong; no output has appeared then.
    """
    s3 = s3_options(settings)
    _check(options, format_, output, settings)
    scored = find_scored(given, settings, s3)
    uris = [uri for each in scored for uri in each.files]
    for uri in uris:
        if is_same_place(uri, output):
            raise UsageError(f"the output {output} is an input; choose another with ", SettingRef("output"), ".")
    mode = reduce(int.__and__, map(mode_of, uris))  # as private as the most private input
    stem = stem_of(output)
    by_name = {TRAIN: output, **({VALIDATION: f"{stem}.{VALIDATION}{output[len(stem) :]}"} if options.split else {})}
    overwrite, is_parquet = settings.output.force, output.endswith(".parquet")
    with ScoredTable() as table, Outputs(s3, overwrite=overwrite, mode=mode) as outputs, ExitStack() as opened:
        sinks = {name: outputs.open(uri) for name, uri in by_name.items()}
        tables = {name: opened.enter_context(ParquetWriter(uri)) for name, uri in by_name.items() if is_parquet}
        write = {name: tables[name].append if is_parquet else sink.write for name, sink in sinks.items()}
        suffixes = () if is_streamed(output) else (*format_.sides, _MANIFEST)
        sides = {suffix: outputs.open(sibling(output, suffix)) for suffix in suffixes}
        reading = read_scored(scored, table, options, settings, s3)
        compared = (
            _read_comparisons(scored, reading, table, settings, s3)
            if format_.unit == "pair" and options.needs_comparisons
            else None
        )
        maker = RowMaker(table, [each.stem for each in scored], format_, options, compared)
        validation = _validation_groups(table, options)
        for row, group in maker.iter_rows():
            name = VALIDATION if group in validation else TRAIN
            maker.counts.rows[name] += 1
            write[name](render_record(row))
        if not maker.counts.rows:
            raise InputError(_nothing_left(reading, maker))
        for name, rows in tables.items():
            rows.write_to(sinks[name].write)
        warnings = warnings_of(reading, maker.counts, options, template_strips=format_.strips_reasoning)
        if options.split and not validation:
            warnings.append("all rows answer one prompt: nothing was split off.")
        manifest = manifest_of(
            reading, maker.counts, format_.name, options, len(table.groups), list(by_name.values()), warnings
        )
        for suffix, sink in sides.items():
            sink.write(render_document(manifest if suffix == _MANIFEST else format_.sides[suffix](output)))
        outputs.commit()
    return ExportReport(manifest, format_.usage(output))


def _check(options: ExportOptions, format_: ExportFormat, output: str, settings: Settings) -> None:
    """Refuse options that contradict each other, before anything is read.

    Raises:
        UsageError: names them.
    """
    if not output.endswith(_SUFFIXES) and not is_streamed(output):
        raise UsageError(f"{output}: name it .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")
    require_rl_prefix(output, settings.storage.any_prefix)
    if options.reasoning == "separate" and not format_.separates_reasoning:
        raise UsageError(
            SettingRef("reasoning", "separate"), f": {format_.name} has no field for reasoning; choose keep or strip."
        )
    if options.split and is_streamed(output):
        raise UsageError(SettingRef("split"), " writes two files; name a file with ", SettingRef("output"), ".")
    for name, units in _USED_BY.items():
        if format_.unit not in units and getattr(options, name) != getattr(_DEFAULTS, name):
            raise UsageError(SettingRef(name), " has no effect with ", SettingRef("to", format_.name), "; omit it.")
    if format_.unit == "pair" and options.mixed_settings and options.min_confidence is not None:
        raise UsageError(
            SettingRef("min_confidence"),
            " needs one judge and one set of settings; remove ",
            SettingRef("mixed_settings", True),
            ".",
        )


def _read_comparisons(
    scored: Sequence[ScoredInput], reading: Reading, table: ScoredTable, settings: Settings, s3: S3Options
) -> ComparedVerdicts:
    """Read the comparisons files of all inputs.

    Raises:
        InputError: one is missing.
    """
    compared = ComparedVerdicts()
    for number, each in enumerate(scored):
        found, metrics = open_comparisons(each, s3, settings), reading.metrics[number]
        if found is None:
            raise InputError(
                f"{each.name}: ",
                SettingRef("pairs", "compared"),
                " and ",
                SettingRef("min_confidence"),
                " need its comparisons file; put *.comparisons.jsonl of the same run next to it",
            )
        weights = {} if metrics is None else {one.name: one.weight for one in metrics.judge.judges}
        for _, comparison in found:
            group = table.find_group(number, str(comparison.group))
            if group is not None:
                compared.add(comparison, group, weights.get(comparison.judge) or 1.0)
    return compared


def _validation_groups(table: ScoredTable, options: ExportOptions) -> set[int]:
    """Return the groups of the validation split: those of one prompt stay together, and every group stays whole."""
    prompts = {group: candidates[0].prompt for group, candidates in table.iter_groups()} if options.split else {}
    chosen = validation_prompts(prompts.values(), options.split, options.seed)
    return {group for group, prompt in prompts.items() if prompt in chosen}


def _nothing_left(reading: Reading, maker: RowMaker) -> Message:
    drops = [(message_of(code), count) for code, count in reading.left_out.items()]
    drops += [(Message.of("dropped: ", code.message), count) for code, count in maker.counts.dropped.items() if count]
    told = [part for message, count in drops for part in (f"; {count:,} × ", message)]
    return Message.of("nothing is left to export", *(told or ["; the inputs are empty"]), ".")
