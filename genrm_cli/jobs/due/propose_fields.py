"""Propose the settings that read the first lines of an input which cannot be read."""

from collections.abc import Mapping, Sequence
from itertools import islice

from genrm_cli.errors import InputError, Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import named_fields, open_fields_of, recognise
from genrm_cli.rollouts.reading.proposal import (
    SAMPLE_LINES,
    Proposal,
    Read,
    describe_choices,
    propose,
)
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.parse_lines import installed_formats, settled_fields
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.source import Source


def sample_of(source: Source) -> list[Record]:
    """Return the first records of an input."""
    records = []
    for line in islice(source.iter_lines(), SAMPLE_LINES):
        if line.oversize is None:
            try:
                records.append(parse_record(line.raw))
            except BadLineError:
                continue
    return records


def propose_fields(records: Sequence[Record]) -> Proposal | None:
    """Return the fields by which the first records can be read, if there is one way."""

    def reader(response_field: str, prompt_field: str | None) -> Read:
        return named_fields(response_field, prompt_field).read

    return propose(records, reader)


def find_open_fields(records: Sequence[Record], settings: InputSettings) -> Mapping[str, str]:
    """Return an example of each field that keeps the first records from being read, by path."""
    found: dict[str, str] = {}
    settled = settled_fields(settings)
    for record in records:
        found |= open_fields_of(record, installed_formats().values(), settled)
    return found


def fields_as_told(
    records: Sequence[Record], roles: Mapping[str, str], settings: InputSettings
) -> dict[str, str]:
    """Return the settings that say what the user said of open fields: `prompt`, `response`,
    `reference` or `ignore`, by path.

    Where no field is the response, a part of the prompt joins the fields that the format reads as
    the prompt and the response.

    Raises:
        InputError: no field is the response, and no format has one.
    """
    by_role: dict[str, list[str]] = {}
    for path, role in roles.items():
        by_role.setdefault(role, []).append(path)
    chosen = {f"{role}_field": paths[0] for role, paths in by_role.items() if role != "ignore"}
    if "ignore" in by_role:
        chosen["ignore_fields"] = ",".join(by_role["ignore"])
    prompt = by_role.get("prompt", [])
    if prompt and "response" not in by_role:
        settled = [*settled_fields(settings), *roles]
        try:
            read = recognise(records[0], installed_formats().values(), settled).fields_in(
                records[0]
            )
        except UnreadableRecordError as error:
            raise InputError("no field is said to be the response: ", error.message) from error
        prompt = [*read.prompt, *prompt]
        chosen["response_field"] = read.response[0]
    if prompt:
        chosen["prompt_field"] = ",".join(prompt)
    return chosen


def describe_proposal(source: Source, settings: InputSettings) -> Message:
    """Return the settings that read the first lines of an input, or the choices; empty if the
    settings say how to read it.
    """
    if settings.format is not None or settings.response_field is not None:
        return Message(())
    records = sample_of(source)
    if not records:
        return Message(())
    if (proposal := propose_fields(records)) is None:
        return describe_choices(records, list(find_open_fields(records, settings)))
    response = SettingRef("response_field", proposal.response_field)
    if proposal.prompt_field is None:
        return Message.of("; the first lines form groups with ", response)
    prompt = SettingRef("prompt_field", proposal.prompt_field)
    return Message.of("; the first lines form groups with ", prompt, " ", response)
