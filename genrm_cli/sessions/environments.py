"""Environments by name, and the scenarios of a file: TOML with `[[scenario]]` tables, or one object
a line.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.errors import InputError, SettingRef, UsageError
from genrm_cli.extensions import Seam, extension_names, load_extension
from genrm_cli.json_types import JsonObject
from genrm_cli.sessions.environment import AnyEnvironment, Environment, EpisodeScenario
from genrm_cli.sessions.session_options import SAMPLES
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.store import Store


@dataclass(frozen=True, slots=True)
class ScenarioSet:
    """Scenarios, the raw tables of their file, and digests of these, by id."""

    scenarios: Sequence[EpisodeScenario]
    tables: Mapping[str, Mapping[str, object]]
    digests: Mapping[str, str]


def find_environment(name: str) -> type[AnyEnvironment]:
    """Return the environment that genrm or an installed package registers under a name."""
    names = extension_names(Seam.ENVIRONMENTS)
    if name not in names:
        raise UsageError(
            SettingRef("environment"), f": unknown {name!r}; expected one of {', '.join(names)}."
        )
    found = load_extension(Seam.ENVIRONMENTS, name, type)
    if not issubclass(found, Environment):
        raise UsageError(
            f"{Seam.ENVIRONMENTS} {name}: {found.__qualname__} is not a subclass of Environment."
        )
    return found


def read_scenarios(uri: str, environment: AnyEnvironment, store: Store) -> ScenarioSet:
    """Read and check the scenarios of a file, or those that come with the environment."""
    scenarios: list[EpisodeScenario] = []
    tables: dict[str, Mapping[str, object]] = {}
    for number, table in enumerate(_read_tables(uri, environment, store), 1):
        scenario = environment.parse_scenario(table, f"{uri}: scenario {number}")
        if scenario.scenario_id in tables:
            raise InputError(f"{uri}: two scenarios have the id {scenario.scenario_id!r}.")
        scenarios.append(scenario)
        tables[scenario.scenario_id] = table
    return ScenarioSet(
        scenarios, tables, {id_: digest_of_json(dict(table)) for id_, table in tables.items()}
    )


def digest_of_json(value: object) -> str:
    """Return the first 16 hexadecimal digits of the sha256 of a JSON value."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    ).hexdigest()[:16]


def _read_tables(uri: str, environment: AnyEnvironment, store: Store) -> list[Mapping[str, object]]:
    content = environment.sample_scenarios().encode() if uri == SAMPLES else store.at(uri).read()
    if content is None:
        raise InputError(
            f"{uri}: no such file; expected scenarios as .toml or .jsonl, or the word {SAMPLES}."
        )
    if uri.endswith((".jsonl", ".ndjson")):
        tables = [
            parse_line(line, f"{uri}: line {number}")
            for number, line in enumerate(content.splitlines(), 1)
            if line.strip()
        ]
    else:
        try:
            tables = tomllib.loads(content.decode()).get("scenario", [])
        except ValueError as error:
            raise InputError(
                f"{uri}: not TOML: {error}. If it holds JSON lines, name it .jsonl."
            ) from error
        if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
            raise InputError(f"{uri}: `scenario` is not a list of tables; write [[scenario]].")
    if not tables:
        raise InputError(
            f"{uri}: no scenarios; expected [[scenario]] tables, or an object a line in a .jsonl "
            "file."
        )
    return tables


def parse_line(line: bytes, where: str) -> JsonObject:
    """Parse a JSON object, or raise `InputError` that begins with `where`."""
    try:
        return parse_record(line)
    except BadLineError as error:
        raise InputError(f"{where}: {error}.") from error
