"""The origin of outputs, for the metrics and the metadata of S3 objects."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from genrm_cli import __version__
from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.compile import compile_rewards, judge_name
from genrm_cli.groups.components.graders import graders_in
from genrm_cli.groups.components.plugins import version_of
from genrm_cli.groups.components.rule_files import read_phrases
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.open_judges import JudgeSpec
from genrm_cli.metrics.run_metrics import RunMetrics, summarise
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.settings import Settings
from genrm_cli.settings.components import TotalTable
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.location import InputIdentity, Mark, folder_of, name_below
from genrm_cli.storage.sink import place_of

METRICS_FORMAT = 1


def provenance_of(identity: InputIdentity, settings: Settings) -> dict[str, str]:
    """Return the metadata of every output object on S3, without what is unknown."""
    known = {
        "version": __version__,
        "settings-digest": digest_of(settings),
        "judge": judge_name(settings),
        "input-uri": identity.uri,
        "input-etag": identity.etag,
        "input-size-bytes": identity.size_bytes,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {name: str(value) for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """The scored lines of one file of an input, and their mark; None for a stream."""

    identity: InputIdentity
    uri: str
    mark: Mark | None


def metrics_of(
    identity: InputIdentity,
    scored_uri: str,
    files: Sequence[ScoredFile],
    run: RunContext,
    plan: GroupPlan,
    judges: Sequence[JudgeSpec],
    wall_time_s: float,
) -> dict[str, Any]:
    """Return the metrics object of a finished input.

    Args:
        identity: of the version that was scored; of a set of files its name.
        scored_uri: where its scored lines go; of a set the place that names its other outputs.
        files: its files, one or more.
        run: settings, and the metrics of this input.
        plan: with the ring that the budget allowed.
        judges: as they were asked.
        wall_time_s: since this input was opened.
    """
    settings, metrics = run.settings, run.metrics
    mark = files[0].mark if len(files) == 1 else None
    of_set = {} if len(files) == 1 else {"files": [_file_record(file, folder_of(scored_uri)) for file in files]}
    return {
        "format": METRICS_FORMAT,
        "input": input_record(identity),
        "output": scored_uri,
        "output_mark": None if mark is None else asdict(mark),
        **of_set,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "reading_version": READING_VERSION,
        "partial": metrics.stopped_by is not None or metrics.failures["not_asked"] > 0,
        **run_record(settings, metrics, plan, judges, wall_time_s),
        "settings_digest": digest_of(settings),
        "versions": versions_record(),
        "judges": plan.pairing.repeats,  # the old name of `repeats`
    }


def _file_record(file: ScoredFile, folder: str) -> dict[str, Any]:
    """Return a file of a set, and its scored lines by their name in the folder of the set."""
    return {
        "input": input_record(file.identity),
        "output": name_below(folder, file.uri),
        "output_mark": None if file.mark is None else asdict(file.mark),
    }


def run_record(
    settings: Settings, metrics: RunMetrics, plan: GroupPlan, judges: Sequence[JudgeSpec], wall_time_s: float
) -> dict[str, Any]:
    """Return who judged and what rewards are made of, with the counts and statistics of one input or of many."""
    pairing = plan.pairing
    return {
        "limit": settings.limits.limit,
        "judge": judge_record(settings, judges),
        "reward_made_of": reward_record(settings),
        "min_reliability": settings.rewards.min_reliability,
        "strategy": pairing.strategy,
        "ring_k": pairing.ring_k if pairing.strategy in RING_STRATEGIES else None,
        "estimator": plan.rewards.estimator,
        "repeats": pairing.repeats,
        **summarise(metrics, wall_time_s),
    }


def input_record(identity: InputIdentity) -> dict[str, Any]:
    """Return which version of an input was read."""
    return {
        "uri": identity.uri,
        "place": place_of(identity.uri),
        "size_bytes": identity.size_bytes,
        "etag": identity.etag,
        "mtime_ns": identity.mtime_ns,
        "ctime_ns": identity.ctime_ns,
        "inode": identity.inode,
    }


def judge_record(settings: Settings, judges: Sequence[JudgeSpec] | None = None) -> dict[str, Any]:
    """Return who judged, and how it was prompted; a panel's judges are listed under `panel`.

    `judges` are those of the run as they were asked; by default as the settings describe them.
    """
    specs = [spec for spec in (judge_specs(settings) if judges is None else judges) if spec.compares]
    if not specs:
        return _one_judge(None, None, settings)
    if not settings.panel.judges:
        return _one_judge(judge_name(settings), specs[0], settings)
    profiles = [spec.profile for spec in specs if spec.profile is not None]
    return {
        "name": judge_name(settings),
        "stand_in": False,
        "base_urls": [],
        "profile": [profile.name for profile in profiles],
        "profile_version": [profile.version for profile in profiles],
        "compat": settings.judge.compat,
        "panel": [_one_judge(spec.config.name, spec, settings) | {"weight": spec.config.weight} for spec in specs],
        "quorum": settings.panel.quorum or len(specs),
        "disagreement": settings.panel.disagreement,
    }


def _one_judge(name: str | None, spec: JudgeSpec | None, settings: Settings) -> dict[str, Any]:
    profile = None if spec is None else spec.profile
    return {
        "name": name,
        "stand_in": spec is not None and spec.config.judge.judge is not None,
        "base_urls": [] if spec is None else list(spec.config.judge.base_url),
        "profile": None if profile is None else profile.name,
        "profile_version": None if profile is None else profile.version,
        "profile_from": None if spec is None or profile is None else spec.source.value,
        "compat": settings.judge.compat if spec is not None else None,
    }


def reward_record(settings: Settings) -> dict[str, Any] | None:
    """Return what rewards are made of beside verdicts, and the versions of what grades them; None for nothing."""
    rewards = compile_rewards(settings)
    if not rewards.is_composed:
        return None
    given = settings.rewards
    rules = [component.option("rule") or "" for component in given.components if component.kind == "rule"]
    functions = {c.name: c.option("python") or "" for c in given.components if c.kind == "python"}
    return {
        "components": {name: rewards.sources[name] for name in rewards.names},
        "rules": {name: read_phrases(name).version for name in rules},
        "functions": {name: version_of(place) for name, place in functions.items()},
        "graders": {
            grader.component: {
                "model": grader.config.judge.model,
                "base_urls": list(grader.config.judge.base_url),
                "profile": grader.profile.name,
                "profile_version": grader.profile.version,
            }
            for grader in graders_in(settings)
        },
        "diversity": None if given.diversity is None else asdict(given.diversity) | {"judge": None},
        "total": None if given.total is None else asdict(given.total) | _by_component(given.total),
    }


def _by_component(total: TotalTable) -> dict[str, Any]:
    return {"weights": dict(total.weights), "gates": dict(total.gates)}


def versions_record() -> dict[str, str]:
    """Return the versions of genrm and Python."""
    return {"genrm": __version__, "python": platform.python_version()}
