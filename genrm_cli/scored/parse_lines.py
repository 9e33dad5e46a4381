"""Parse lines: the format of a line, its rollouts and, if it was scored, their scores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.extensions import Seam, load_extensions
from genrm_cli.json_types import Record
from genrm_cli.rollouts.declared import Requirement, check_declared, parse_requirement
from genrm_cli.rollouts.formats import FORMATS, Format, named_fields, recognise
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.scored.lines import ScoredRollout, parse_scored_line
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.encoding.records import BadLineError, Line, parse_record
from genrm_cli.storage.source import Source


def parse_object(
    line: Line, settings: InputSettings, on_null: Callable[[str], object] = str
) -> Record:
    """Return the record of a line; see `parse_line`."""
    if line.oversize is not None:
        most = SettingRef("max_line_bytes", settings.max_line_bytes)
        raise BadLineError(f"{line.oversize:,} bytes long, more than ", most, kind="too long")
    return parse_record(line.raw, on_null)


def parse_line(
    line: Line,
    settings: InputSettings,
    requirements: Sequence[Requirement] = (),
    on_null: Callable[[str], object] = str,
) -> tuple[Record, Format, list[Rollout]]:
    """Return the record of a line, its format and its rollouts; `on_null` gets each NaN or
    infinity, read as null.

    Raises:
        BadLineError: it is too long, or not a JSON object.
        UnreadableRecordError: it has no format, or lacks what it must declare.
    """
    record = parse_object(line, settings, on_null)
    format_ = format_of(record, settings)
    rollouts = format_.read(record)
    if not isinstance(rollouts, list) or not all(isinstance(each, Rollout) for each in rollouts):
        raise UsageError(
            f"the format {format_.name} of an installed package read no rollouts; repair "
            "the package."
        )
    check_declared(record, requirements)
    return record, format_, rollouts


def iter_scored(
    source: Source, settings: InputSettings
) -> Iterator[tuple[Line, list[ScoredRollout], str | None]]:
    """Yield each line with its rollouts, and why it has none if it cannot be read, is not scored,
    or was changed since.
    """
    requirements = [parse_requirement(text) for text in settings.require_metadata]
    for line in source.iter_lines():
        try:
            record, format_, rollouts = parse_line(line, settings, requirements)
            scores = format_.scores(record)
            if len(rollouts) != len(scores):
                raise UnreadableRecordError(
                    f"{len(rollouts)} rollouts but {len(scores)} scores; score it again"
                )
            members = [
                ScoredRollout(rollout, parse_scored_line(score), format_.own_record(record, place))
                for place, (rollout, score) in enumerate(zip(rollouts, scores, strict=True))
            ]
        except (BadLineError, UnreadableRecordError) as error:
            yield line, [], str(error)
        else:
            yield line, members, None


def format_of(record: Record, settings: InputSettings) -> Format:
    """Return the format that the settings force, else the one that the record is written in."""
    settled = settled_fields(settings)
    if settings.response_field is not None:
        named = _named_fields(settings.response_field, settings.prompt_field, settings.id_field)
        named.refuse_open(record, settled)
        return named
    if settings.format is None:
        return recognise(record, installed_formats().values(), settled)
    return FORMATS.get(settings.format) or installed_formats()[settings.format]


# Called for each line; a command reads with one or two settings.
@lru_cache(maxsize=8)
def settled_fields(settings: InputSettings) -> Mapping[str, str]:
    """Return the fields that the settings assign a role."""
    declared = [parse_requirement(text).path for text in settings.require_metadata]
    paths = {
        "metadata": [
            *_paths_in(settings.group_by),
            *declared,
            *(f"metadata.{each}" for each in declared),
        ],
        "ignored": _paths_in(settings.ignore_fields),
        "rubric": _paths_in(settings.rubric_field),
        "reference, shown to the judge": _paths_in(settings.reference_field),
    }
    return {path: role for role, named in paths.items() for path in named}


def _paths_in(text: str | None) -> list[str]:
    return [] if text is None else [path.strip() for path in text.split(",")]


def installed_formats() -> Mapping[str, Format]:
    """Return the formats that installed packages register, by name.

    Raises:
        UsageError: one cannot be loaded, or its name is not that of its entry point or belongs to a
            built-in format.
    """
    installed = load_extensions(Seam.FORMATS, Format)
    for name, format_ in installed.items():
        if name != format_.name or name in FORMATS:
            problem = (
                "that name is built in" if name in FORMATS else f"it calls itself {format_.name!r}"
            )
            raise UsageError(
                f"the format {name!r} of an installed package cannot be used: {problem}; "
                "repair the package."
            )
    return installed


_named_fields = lru_cache(maxsize=8)(named_fields)
