"""Export scored rollouts: read, choose, render, and write all outputs or none."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from genrm_cli.errors import InputError, Message, SettingRef, UsageError
from genrm_cli.json_types import Record
from genrm_cli.products.export.balance import spread_order, validation_prompts
from genrm_cli.products.export.candidates import Drop, code_of, message_of
from genrm_cli.products.export.export_options import ExportOptions
from genrm_cli.products.export.make_rows import RowMaker
from genrm_cli.products.export.manifest import judging_warnings, manifest_of, warnings_of
from genrm_cli.products.export.read_scored import ExportCounts, open_inputs
from genrm_cli.products.export.row_spool import RowSpool
from genrm_cli.products.export.rows import ExportFormat
from genrm_cli.scored.files import find_scored
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.parquet import require_parquet, write_parquet
from genrm_cli.storage.encoding.records import parse_record, render_document, render_record
from genrm_cli.storage.local.sinks import is_streamed
from genrm_cli.storage.location import require_rl_prefix, sibling, stem_of
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.places import is_same_place
from genrm_cli.storage.store import Store

TRAIN = "train"
VALIDATION = "validation"
_MANIFEST = ".manifest.json"
# What the loaders of the guide read.
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".parquet")
_USED_BY: Mapping[str, Collection[str]] = {
    "pairs": ("pair",),
    "top": ("pair",),
    "min_gap": ("pair",),
    "max_length_ratio": ("pair",),
    "balance_length": ("pair",),
    "max_pairs_per_prompt": ("pair",),
    "best_of": ("sample",),
    "min_reward": ("sample",),
    "threshold": ("label",),
}
"""Options that some kinds of rows obey, and the others would ignore."""
_DEFAULTS = ExportOptions()


def export(
    given: Sequence[str],
    output: str,
    format_: ExportFormat,
    options: ExportOptions,
    settings: Settings,
) -> tuple[Record, str]:
    """Write the data set of a format, its validation split and its manifest, all of them or none.

    Returns the manifest, and the code that loads the rows.

    Args:
        given: scored files, folders, prefixes and patterns.
        output: URI of the rows.
        format_: format of the rows.
        options: choice of the rows.
        settings: for reading lines and writing outputs.

    Raises:
        GenrmError: its subclasses say what went wrong; no output has appeared then.
    """
    store = Store(settings.storage)
    _check(options, format_, output, settings)
    scored = find_scored(given, settings, store)
    uris = [uri for each in scored for uri in each.files]
    for uri in uris:
        if is_same_place(uri, output):
            raise UsageError(
                f"the output {output} is an input; choose another with ", SettingRef("output"), "."
            )
    # As private as the most private input.
    mode = reduce(int.__and__, (store.at(uri).mode() for uri in uris))
    by_name = {TRAIN: output}
    if options.split:
        stem = stem_of(output)
        by_name[VALIDATION] = f"{stem}.{VALIDATION}{output[len(stem) :]}"
    is_parquet = output.endswith(".parquet")
    if is_parquet:
        require_parquet(output)
    with (
        ExitStack() as opened,
        Outputs(store, overwrite=settings.output.force, mode=mode) as outputs,
        RowSpool() as rows,
    ):
        # Before anything is read: an output that cannot be written ends the command at once.
        sinks = {name: outputs.open(uri) for name, uri in by_name.items()}
        suffixes = () if is_streamed(output) else (*format_.sides, _MANIFEST)
        beside = {suffix: outputs.open(sibling(output, suffix)) for suffix in suffixes}
        inputs = open_inputs(scored, format_, options, settings, opened)
        maker = RowMaker(format_, options, rows, set(options.keep))
        for input_ in inputs:
            for group in input_.run.iter_groups():
                maker.add_group(input_, group)
        kept = _balanced(rows, maker)
        for name, numbers in _split(rows, kept, maker).items():
            maker.counts.rows[name] = len(numbers)
            iter_lines = partial(_iter_lines, rows, numbers, format_, name)
            if is_parquet:
                write_parquet(by_name[name], iter_lines, sinks[name].write)
            else:
                for line in iter_lines():
                    sinks[name].write(line)
        warnings = _warnings_of_rows(rows, kept, maker)
        warnings += judging_warnings([each.run for each in inputs], format_.unit)
        manifest = manifest_of(inputs, maker, rows.sides(kept), list(by_name.values()), warnings)
        for suffix, sink in beside.items():
            sink.write(
                render_document(manifest if suffix == _MANIFEST else format_.sides[suffix](output))
            )
        outputs.commit()
    return manifest, format_.usage(output, by_name.get(VALIDATION))


def _balanced(rows: RowSpool, maker: RowMaker) -> NDArray[np.bool_]:
    """Return which rows to keep, and count the others; raise an error if there are none, or no
    field to keep.
    """
    if len(rows) and maker.missing:
        unknown = SettingRef("keep", min(maker.missing))
        raise UsageError(
            unknown, ": no exported line has a value there; `genrm validate` names the fields."
        )
    kept = np.ones(len(rows), dtype=bool)
    if maker.options.balance_length:
        kept = rows.balanced(maker.options.seed)
    maker.counts.dropped[Drop.BALANCE_LENGTH] += int(np.count_nonzero(~kept))
    if not kept.any():
        raise InputError(_nothing_left(maker.counts))
    return kept


def _split(
    rows: RowSpool, kept: NDArray[np.bool_], maker: RowMaker
) -> dict[str, NDArray[np.int64]]:
    """Return the numbers of the rows to keep by side of the split, in the order of writing."""
    options = maker.options
    leaders = np.array(rows.leaders, dtype=np.uint64)
    # By the prompt of the group, so that histories of one scenario stay on one side.
    validation = validation_prompts(leaders[kept].tolist(), options.split, options.seed)
    order = np.arange(len(rows))
    if maker.format.unit == "label":
        # KTO estimates the KL with the answer of the next row, which must be of another prompt.
        order = np.array(spread_order(rows.leaders))
    order = order[kept[order]]
    is_held = np.isin(leaders[order], np.array(sorted(validation), dtype=np.uint64))
    sides = {TRAIN: order[~is_held]}
    return sides | {VALIDATION: order[is_held]} if options.split else sides


def _iter_lines(
    rows: RowSpool, numbers: NDArray[np.int64], format_: ExportFormat, split: str
) -> Iterator[bytes]:
    for number in numbers.tolist():
        line = rows.line(number)
        if format_.name_split is not None:
            row = parse_record(line)
            format_.name_split(row, split)
            line = render_record(row)
        yield line


def _warnings_of_rows(rows: RowSpool, kept: NDArray[np.bool_], maker: RowMaker) -> list[str]:
    options = maker.options
    strips = maker.format.strips_reasoning and options.reasoning == "keep"
    reasoned, alike = (
        int(np.array(each)[kept].sum()) for each in (rows.with_reasoning, rows.only_reasoning)
    )
    warnings = warnings_of(maker.counts, reasoned if strips else 0, alike)
    if options.split and not maker.counts.rows[VALIDATION]:
        warnings.append("all rows answer one prompt: nothing was split off.")
    return warnings


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
            SettingRef("reasoning", "separate"),
            f": {format_.name} has no field for reasoning; choose keep or strip.",
        )
    if options.split and is_streamed(output):
        raise UsageError(
            SettingRef("split"), " writes two files; name a file with ", SettingRef("output"), "."
        )
    for name, units in _USED_BY.items():
        if format_.unit not in units and getattr(options, name) != getattr(_DEFAULTS, name):
            raise UsageError(
                SettingRef(name),
                " has no effect with ",
                SettingRef("to", format_.name),
                "; omit it.",
            )


def _nothing_left(counts: ExportCounts) -> Message:
    drops: list[tuple[Message, int]] = [
        *((message_of(code_of(why)), count) for why, count in counts.left_out.items()),
        *((Message.of("dropped: ", code.message), n) for code, n in counts.dropped.items() if n),
        *((Message.of("unfit: ", sentence), count) for sentence, count in counts.unfit.items()),
    ]
    parts = [part for message, count in drops for part in (f"; {count:,} × ", message)]
    return Message.of("nothing is left to export", *(parts or ["; the inputs are empty"]), ".")
