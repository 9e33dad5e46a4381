"""The origin of outputs, for the metrics and the metadata of S3 objects."""

import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from genrm_cli import __version__
from genrm_cli.groups.compile import asks_for_verdicts, compile_rewards, judge_name
from genrm_cli.groups.components.graders import graders_in
from genrm_cli.groups.components.plugins import version_of
from genrm_cli.groups.components.rule_files import read_phrases
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.lookup.find_profile import profile_of
from genrm_cli.metrics.run_metrics import summarise
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.settings import Settings
from genrm_cli.settings.components import TotalTable
from genrm_cli.settings.panel import JudgeConfig, judges_of
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.formats.location import InputIdentity, Mark
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


def metrics_of(
    identity: InputIdentity, scored_uri: str, mark: Mark | None, run: RunContext, plan: GroupPlan, wall_time_s: float
) -> dict[str, Any]:
    """Return the metrics object of a finished input.

    Args:
        identity: of the version that was scored.
        scored_uri: where its scored lines go.
        mark: tells these scored lines from others; None for a stream.
        run: settings, and the metrics of this input.
        plan: with the ring that the budget allowed.
        wall_time_s: since this input was opened.
    """
    settings, metrics, pairing = run.settings, run.metrics, plan.pairing
    return {
        "format": METRICS_FORMAT,
        "input": input_record(identity),
        "output": scored_uri,
        "output_mark": None if mark is None else asdict(mark),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "reading_version": READING_VERSION,
        "partial": metrics.stopped_by is not None or metrics.failures["not_asked"] > 0,
        "limit": settings.limits.limit,
        "judge": judge_record(settings),
        "reward_made_of": reward_record(settings),
        "min_reliability": settings.rewards.min_reliability,
        "strategy": pairing.strategy,
        "ring_k": pairing.ring_k if pairing.strategy in RING_STRATEGIES else None,
        "estimator": plan.rewards.estimator,
        "repeats": pairing.repeats,
        **summarise(metrics, wall_time_s),
        "settings_digest": digest_of(settings),
        "versions": versions_record(),
        "judges": pairing.repeats,  # the old name of `repeats`
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


def judge_record(settings: Settings) -> dict[str, Any]:
    """Return who judged, and how it was prompted; a panel's judges are listed under `panel`."""
    if not asks_for_verdicts(settings):
        return _one_judge(None, None, settings)
    configs = judges_of(settings)
    if not settings.panel.judges:
        return _one_judge(judge_name(settings), configs[0], settings)
    profiles = [profile_of(config) for config in configs]
    return {
        "name": judge_name(settings),
        "stand_in": False,
        "base_urls": [],
        "profile": [profile.name for profile in profiles],
        "profile_version": [profile.version for profile in profiles],
        "compat": settings.judge.compat,
        "panel": [
            _one_judge(config.name, config, settings) | {"name": config.name, "weight": config.weight}
            for config in configs
        ],
        "quorum": settings.panel.quorum or len(configs),
        "disagreement": settings.panel.disagreement,
    }


def _one_judge(name: str | None, config: JudgeConfig | None, settings: Settings) -> dict[str, Any]:
    profile = None if config is None or config.judge.judge is not None else profile_of(config)
    return {
        "name": name,
        "stand_in": config is not None and config.judge.judge is not None,
        "base_urls": [] if config is None else list(config.judge.base_url),
        "profile": None if profile is None else profile.name,
        "profile_version": None if profile is None else profile.version,
        "compat": settings.judge.compat if config is not None else None,
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
