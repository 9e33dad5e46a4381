"""The scenarios of a run: chosen by id, difficulty and risk, drawn by what an earlier run earned,
and paired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.sessions.environment import AnyEnvironment, EpisodeScenario
from genrm_cli.sessions.environments import ScenarioSet, parse_line
from genrm_cli.sessions.session_options import SessionOptions
from genrm_cli.settings.kinds import did_you_mean

_LEAST_WEIGHT = 0.1  # of the largest: no scenario is ever left out
_NAMED = 6  # examples in an error message
_FIELDS = {"scenario": "scenario_id", "difficulty": "difficulty", "risk": "risk_level"}
"""Settings that choose scenarios, with the field of the scenario's record that each compares."""


def choose_scenarios(
    found: ScenarioSet, options: SessionOptions, environment: AnyEnvironment, run: RunContext
) -> ScenarioSet:
    """Return the scenarios to play, in the order of their file; one that is drawn twice comes
    twice.
    """
    chosen = found.scenarios
    for name, key in _FIELDS.items():
        if wanted := getattr(options, name):
            chosen = _with_value(chosen, name, key, wanted)
    if options.weights is None:
        chosen = chosen[: options.limit]
    else:
        weights = scenario_weights(
            [each.scenario_id for each in chosen], _read_rewards(options.weights, run)
        )
        times = draw_times(weights, options.limit or len(chosen), options.client_seed)
        chosen = [each for each, count in zip(chosen, times, strict=True) for _ in range(count)]
    identities = [_parse_identity(text) for text in options.identity]
    if len(dict(identities)) < len(identities):
        raise UsageError(SettingRef("identity"), ": two identities have one name.")
    if identities:
        named = (
            (replace(each, identity=name), said) for each in chosen for name, said in identities
        )
        chosen = [environment.with_identity(each, said) for each, said in named]
    return replace(found, scenarios=chosen)


def _with_value(
    scenarios: Sequence[EpisodeScenario], name: str, key: str, wanted: Sequence[str]
) -> Sequence[EpisodeScenario]:
    values = [str(each.as_record().get(key, "")) for each in scenarios]
    for text in wanted:
        if text.casefold() not in map(str.casefold, values):
            expected = [*dict.fromkeys(filter(None, values))][:_NAMED]
            among = f"for example {', '.join(expected)}" if expected else "and none has any"
            hint = did_you_mean(text, values)
            raise UsageError(
                SettingRef(name),
                f": no scenario has {text!r}, {among}.{hint}",
                naming(" See $list."),
            )
    asked = {text.casefold() for text in wanted}
    return [
        each for each, value in zip(scenarios, values, strict=True) if value.casefold() in asked
    ]


def scenario_weights(ids: Sequence[str], earned: Mapping[str, RunningStats]) -> list[float]:
    """Return how often scenarios are due, relative to each other: the hard and the uncertain ones
    more often.

    A weight is the distance of the scenario's mean reward from the highest mean, plus its standard
    deviation; at least a tenth of the largest. A scenario without a session has the largest. All
    are equal if nothing tells them apart."""
    means = {id_: stats.mean for id_, stats in earned.items() if stats.mean is not None}
    known = [id_ for id_ in ids if id_ in means]
    if not known:
        return [1.0] * len(ids)
    best = max(means[id_] for id_ in known)
    weights = {id_: best - mean + (earned[id_].deviation() or 0.0) for id_, mean in means.items()}
    most = max(weights[id_] for id_ in known) or 1.0
    return [max(weights.get(id_, most), _LEAST_WEIGHT * most) for id_ in ids]


def draw_times(weights: Sequence[float], count: int, seed: int) -> list[int]:
    """Return how often each is drawn: `count` draws in proportion to the weights, each within one
    of its share.

    Source: systematic sampling, W. G. Madow, Annals of Mathematical Statistics 20 (1949) 333.
    """
    step = sum(weights) / count
    offset = Random(f"curriculum/{seed}").random()
    times = []
    upto = 0.0
    for weight in weights:
        before = -int(-(upto / step - offset) // 1)
        upto += weight
        times.append(-int(-(upto / step - offset) // 1) - before)
    return times


def _read_rewards(uri: str, run: RunContext) -> Mapping[str, RunningStats]:
    """Return the rewards of collected or scored sessions by scenario."""
    metrics = SessionMetrics()
    with run.open_source(uri) as source:
        for line in source.iter_lines():
            record = parse_line(line.raw, f"{uri}: line {line.number}")
            reward = record.get("reward")
            total = reward.get("total_reward") if isinstance(reward, dict) else None
            if isinstance(total, int | float):
                metrics.add(record, float(total))
    if "scenario" not in metrics.by:
        raise InputError(
            f"{uri}: no session with a scenario_id and a reward.total_reward; expected sessions "
            "of a run."
        )
    return metrics.by["scenario"]


def _parse_identity(text: str) -> tuple[str, str]:
    name, _, said = (part.strip() for part in text.partition("="))
    if not name or not said or not name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            SettingRef("identity", text),
            ": expected a name and what the client says, such as woman=I am a woman.",
        )
    return name, said
