"""Environments by name, and the scenarios of a file: TOML with `[[scenario]]` tables, or one object
a line.
"""

import hashlib
import json
import tomllib
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.extensions import Seam, extension_names, load_extension
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import JsonObject
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.products.sessions.environment import AnyEnvironment, Environment, EpisodeScenario
from genrm_cli.products.sessions.session_options import SAMPLES, SessionOptions
from genrm_cli.rollouts.formats.format import number_or_none
from genrm_cli.settings.kinds import did_you_mean
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.store import Store

_EXAMPLES = 6  # fit an error message
_LEAST_WEIGHT = 0.1  # of the largest: easy scenarios come, too, so that what is unlearned shows


class ScenarioSet(Struct, frozen=True):
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
            f"{Seam.ENVIRONMENTS} {name}: {found.__qualname__} is not a subclass of Environment; "
            "repair the package."
        )
    return found


def read_scenarios(uri: str, environment: AnyEnvironment, store: Store) -> ScenarioSet:
    """Read and check the scenarios of a file, or those that come with the environment."""
    scenarios: list[EpisodeScenario] = []
    tables: dict[str, Mapping[str, object]] = {}
    for number, table in enumerate(_read_tables(uri, environment, store), 1):
        scenario = environment.parse_scenario(table, f"{uri}: scenario {number}")
        if scenario.scenario_id in tables:
            raise InputError(
                f"{uri}: two scenarios have the id {scenario.scenario_id!r}; rename one."
            )
        scenarios.append(scenario)
        tables[scenario.scenario_id] = table
    digests = {id_: digest_of_json(dict(table)) for id_, table in tables.items()}
    return ScenarioSet(scenarios, tables, digests)


def choose_scenarios(found: ScenarioSet, options: SessionOptions, run: RunContext) -> ScenarioSet:
    """Return the scenarios to play, in the order of their file; with weights as often as each is
    drawn.
    """
    chosen = found.scenarios
    for setting, field, wanted in (
        ("scenario", "scenario_id", options.scenario),
        ("difficulty", "difficulty", options.difficulty),
        ("risk", "risk_level", options.risk),
    ):
        if wanted:
            chosen = _with_value(chosen, setting, field, wanted)
    if options.weights is None:
        return replace(found, scenarios=chosen[: options.limit])
    rewards = _read_rewards(options.weights, run)
    weights = scenario_weights([each.scenario_id for each in chosen], rewards)
    drawn = draw(weights, options.limit or len(chosen), options.client_seed)
    return replace(found, scenarios=[chosen[number] for number in drawn])


def scenario_weights(ids: Sequence[str], rewards: Mapping[str, RunningStats]) -> list[float]:
    """Return how often scenarios are due, relative to each other: the distance of the mean reward
    from the highest, plus the standard deviation; the largest for one without a session.
    """
    best = max(stats.mean or 0.0 for stats in rewards.values())
    due = {
        id_: best - (stats.mean or 0.0) + (stats.deviation() or 0.0)
        for id_, stats in rewards.items()
    }
    most = max(due.values()) or 1.0
    return [max(due.get(id_, most), _LEAST_WEIGHT * most) for id_ in ids]


def draw(weights: Sequence[float], count: int, seed: int) -> list[int]:
    """Return the indices of `count` draws in ascending order, each as often as its share of the
    weights, rounded up or down.

    Source: systematic sampling, W. G. Madow, Annals of Mathematical Statistics 20 (1949) 333.
    """
    # One random offset for all draws: independent draws would miss scenarios by chance.
    *ends, total = accumulate(weights)
    offset = Random(seed).random()
    return [bisect(ends, (number + offset) * total / count) for number in range(count)]


def _read_rewards(uri: str, run: RunContext) -> Mapping[str, RunningStats]:
    metrics = SessionMetrics()
    with run.open_source(uri) as source:
        for line in source.iter_lines():
            record = _parse_line(line.raw, f"{uri}: line {line.number}")
            reward = record.get("reward")
            if isinstance(reward, dict):
                metrics.add(record, number_or_none(reward.get("total_reward")))
    if "scenario" not in metrics.by:
        raise InputError(
            f"{uri}: no session with a scenario.scenario_id and a reward.total_reward; expected "
            "the sessions of a run."
        )
    return metrics.by["scenario"]


def digest_of_json(value: object) -> str:
    """Return the first 16 hexadecimal digits of the sha256 of a JSON value."""
    # 64 bits tell the scenarios and settings of all runs of a project apart.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_value(
    scenarios: Sequence[EpisodeScenario], setting: str, field: str, wanted: Sequence[str]
) -> Sequence[EpisodeScenario]:
    values = [str(scenario.as_record().get(field, "")) for scenario in scenarios]
    folded = [value.casefold() for value in values]
    for text in wanted:
        if text.casefold() not in folded:
            examples = ", ".join([*dict.fromkeys(filter(None, values))][:_EXAMPLES])
            among = f"for example {examples}" if examples else "and none has any"
            raise UsageError(
                SettingRef(setting),
                f": no scenario has {text!r}, {among}.{did_you_mean(text, values)}",
                naming(" See $list."),
            )
    asked = {text.casefold() for text in wanted}
    return [scenario for scenario, value in zip(scenarios, folded, strict=True) if value in asked]


def _read_tables(uri: str, environment: AnyEnvironment, store: Store) -> list[Mapping[str, object]]:
    content = environment.sample_scenarios().encode() if uri == SAMPLES else store.at(uri).read()
    if content is None:
        raise InputError(
            f"{uri}: no such file; expected scenarios as .toml or .jsonl, or the word {SAMPLES}."
        )
    tables: list[Mapping[str, object]]
    if uri.endswith((".jsonl", ".ndjson")):
        tables = [
            _parse_line(line, f"{uri}: line {number}")
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


def _parse_line(line: bytes, where: str) -> JsonObject:
    try:
        return parse_record(line)
    except BadLineError as error:
        raise InputError(f"{where}: {error}.") from error
