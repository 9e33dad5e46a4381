"""Read the scenarios of a file: TOML with `[[scenario]]` tables, or an object a line."""

import tomllib
from collections.abc import Mapping

from genrm_cli.errors import InputError
from genrm_cli.sessions.therapy.environment import sample_scenarios
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.objects import read_object

SAMPLES = "samples"
"""Names the scenarios that come with the program."""


def read_scenario_tables(uri: str, s3: S3Options) -> list[Mapping[str, object]]:
    """Read the tables of a scenario file, unchecked.

    Raises:
        InputError: there is no such file, or it is neither TOML nor JSON lines, or holds no scenario.
    """
    if uri == SAMPLES:
        return _tables_of_toml(sample_scenarios(), uri)
    content = read_object(uri, s3)
    if content is None:
        raise InputError(f"{uri}: no such file; expected scenarios as .toml or .jsonl, or the word {SAMPLES}.")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{uri}: not UTF-8 text ({error.reason}).") from error
    tables = _tables_of_lines(text, uri) if uri.endswith((".jsonl", ".ndjson")) else _tables_of_toml(text, uri)
    if not tables:
        raise InputError(f"{uri}: no scenarios; expected [[scenario]] tables, or an object a line in a .jsonl file.")
    return tables


def _tables_of_toml(text: str, uri: str) -> list[Mapping[str, object]]:
    try:
        tables = tomllib.loads(text).get("scenario", [])
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{uri}: not TOML: {error}. If it holds JSON lines, name it .jsonl.") from error
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise InputError(f"{uri}: `scenario` is not a list of tables; write [[scenario]].")
    return tables


def _tables_of_lines(text: str, uri: str) -> list[Mapping[str, object]]:
    tables: list[Mapping[str, object]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                tables.append(parse_record(line.encode()))
            except BadLineError as error:
                raise InputError(f"{uri}: line {number}: {error}.") from error
    return tables
