"""Export scored rollouts: read, choose, render, and write all outputs or none."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from genrm_cli.errors import InputError, Message, SettingRef, UsageError
from genrm_cli.export.candidates import ExportOptions, message_of
from genrm_cli.export.formats import FORMATS
from genrm_cli.export.make_rows import RowMaker
from genrm_cli.export.manifest import manifest_of, warnings_of
from genrm_cli.export.read_scored import Reading, read_scored
from genrm_cli.export.rows import ExportFormat, Json
from genrm_cli.export.scored_table import ComparedVerdicts, ScoredTable
from genrm_cli.export.split import PromptSplit
from genrm_cli.jobs.context import s3_options
from genrm_cli.json_types import Record
from genrm_cli.scored.files import ScoredInput, find_scored
from genrm_cli.scored.groups import open_comparisons
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.parquet import ParquetWriter
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.location import S3Options, require_rl_prefix, sibling, stem_of
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import Sink, is_same_place, is_streamed
from genrm_cli.storage.source import mode_of

TRAIN, VALIDATION = "train", "validation"
_MANIFEST = ".manifest.json"
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".parquet")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """A finished export: its manifest, and the code that loads it."""

    manifest: Record
    usage: str


def export(given: Sequence[str], output: str, options: ExportOptions, settings: Settings) -> ExportReport:
    """Write the data set of a format, its validation split and its manifest, all of them or none.

    Args:
        given: scored files, folders, prefixes and patterns.
        output: URI of the rows.
        options: choice and form of the rows.
        settings: for reading lines and writing outputs.

    Raises:
        GenrmError: its subclasses say what went wrong; no output has appeared then.
    """
    format_, s3 = FORMATS[options.to], s3_options(settings)
    _check(options, format_, output, settings)
    scored = find_scored(given, settings, s3)
    uris = [uri for each in scored for uri in each.files]
    for uri in uris:
        if is_same_place(uri, output):
            raise UsageError(f"the output {output} is an input; choose another with ", SettingRef("output"), ".")
    mode = reduce(int.__and__, map(mode_of, uris))  # as private as the most private input
    stem = stem_of(output)
    by_name = {TRAIN: output, **({VALIDATION: f"{stem}.{VALIDATION}{output[len(stem) :]}"} if options.split else {})}
    overwrite = settings.output.force
    with ScoredTable() as table, Outputs(s3, overwrite=overwrite, mode=mode) as outputs, ExitStack() as opened:
        files = {name: RowFile(uri, outputs.open(uri), opened) for name, uri in by_name.items()}
        suffixes = () if is_streamed(output) else (*format_.sides, _MANIFEST)
        sides = {suffix: outputs.open(sibling(output, suffix)) for suffix in suffixes}
        reading = read_scored(scored, table, options, settings, s3)
        compared = (
            _read_comparisons(scored, reading, table, settings, s3)
            if format_.unit == "pair" and options.needs_comparisons
            else None
        )
        maker = RowMaker(table, [each.stem for each in scored], format_, options, compared)
        validation = _validation_prompts(table, options)
        for row, prompt in maker.iter_rows():
            name = VALIDATION if prompt in validation else TRAIN
            maker.counts.rows[name] += 1
            files[name].write(row)
        if not maker.counts.rows:
            raise InputError(_nothing_left(reading, maker))
        for file in files.values():
            file.finish()
        warnings = warnings_of(reading, maker.counts, options, template_strips=format_.strips_reasoning)
        if options.split and not validation:
            warnings.append("all prompts are near-duplicates of each other: nothing was split off.")
        if late := set().union(*(file.late_fields for file in files.values())):
            warnings.append(
                f"{', '.join(sorted(late))} first appear after 10 MB of JSON lines, where loaders based "
                "on `datasets` fail: write .parquet instead."
            )
        manifest = manifest_of(reading, maker.counts, options, len(table.groups), list(by_name.values()), warnings)
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
    if format_.unit == "pair" and options.mixed_settings and options.pairs.min_confidence is not None:
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


def _validation_prompts(table: ScoredTable, options: ExportOptions) -> set[int]:
    if not options.split:
        return set()
    split = PromptSplit()
    for _, candidates in table.iter_groups():
        for digest, row in {candidate.prompt: candidate.row for candidate in candidates}.items():
            if digest not in split:
                split.add(digest, table.load(row).rollout.prompt)
    return split.validation(options.split, options.seed)


def _nothing_left(reading: Reading, maker: RowMaker) -> Message:
    drops = [(message_of(code), count) for code, count in reading.left_out.items()]
    drops += [(Message.of("dropped: ", code.message), count) for code, count in maker.counts.dropped.items() if count]
    told = [part for message, count in drops for part in (f"; {count:,} × ", message)]
    return Message.of("nothing is left to export", *(told or ["; the inputs are empty"]), ".")


_INFERRED_BYTES = 10 << 20


class RowFile:
    """An output of rows.

    Attributes:
        late_fields: fields of JSON lines, nested ones included, that no row in the first 10 MiB has.
    """

    def __init__(self, uri: str, sink: Sink, opened: ExitStack) -> None:
        self.late_fields: set[str] = set()
        self._sink = sink
        self._table = opened.enter_context(ParquetWriter(uri)) if uri.endswith(".parquet") else None
        self._known: set[str] = set()
        self._bytes = 0

    def write(self, row: Json) -> None:
        """Write a row."""
        line = render_record(row)
        if self._table is not None:
            self._table.append(line)
            return
        self._sink.write(line)
        fields = set(_iter_fields(row))
        if self._bytes < _INFERRED_BYTES:
            self._known |= fields
        else:
            self.late_fields |= fields - self._known
        self._bytes += len(line)

    def finish(self) -> None:
        """Write the table, which the last row completes."""
        if self._table is not None:
            self._table.write_to(self._sink.write)


def _iter_fields(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield path + name
            yield from _iter_fields(each, f"{path}{name}.")
    elif isinstance(value, list):
        for each in value:
            yield from _iter_fields(each, path)
