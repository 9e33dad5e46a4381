"""What outputs say of where they come from: in the metrics, and in the metadata of S3 objects."""

import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from genrm_cli import __version__
from genrm_cli.groups.components import asks_for_verdicts, component_names, has_components, sources_of
from genrm_cli.groups.find_profile import profile_of
from genrm_cli.groups.graders import graders_in
from genrm_cli.groups.plugins import version_of
from genrm_cli.groups.rule_files import read_phrases
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.lexical import LEXICAL_VERSION
from genrm_cli.metrics.run_metrics import summarise
from genrm_cli.settings import Settings
from genrm_cli.settings.components import TotalTable
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.formats.location import InputIdentity
from genrm_cli.storage.formats.mark import Mark
from genrm_cli.storage.sink import place_of


def provenance_of(identity: InputIdentity, settings: Settings) -> dict[str, str]:
    """Return what every output object on S3 carries in its metadata; what is not known is left out."""
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
    identity: InputIdentity, scored_uri: str, mark: Mark | None, run: RunContext, wall_time_s: float
) -> dict[str, Any]:
    """Return the metrics object of a finished input.

    Args:
        identity: of the version that was scored.
        scored_uri: where its scored lines go.
        mark: tells these scored lines from others; None for a stream.
        run: settings and the tally of this input.
        wall_time_s: from the beginning of this input.
    """
    settings = run.settings
    return {
        "input": input_record(identity),
        "output": scored_uri,
        "output_mark": None if mark is None else asdict(mark),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "partial": run.tally.stopped_by is not None or run.tally.failures["not_asked"] > 0,
        "judge": judge_record(settings),
        "reward_made_of": reward_record(settings),
        "min_reliability": settings.min_reliability,
        "strategy": settings.strategy,
        "judges": settings.judges,
        **summarise(run.tally, wall_time_s),
        "settings_digest": digest_of(settings),
        "versions": versions_record(),
    }


def input_record(identity: InputIdentity) -> dict[str, Any]:
    """Return which version of an input it was."""
    return {
        "uri": identity.uri,
        "place": place_of(identity.uri),
        "size_bytes": identity.size_bytes,
        "etag": identity.etag,
        "mtime_ns": identity.mtime_ns,
    }


def judge_record(settings: Settings) -> dict[str, Any]:
    """Return who judged, and how it was asked; a panel's judges stand under `panel`."""
    seats = judges_of(settings)
    if settings.panel:
        return {
            "name": judge_name(settings),
            "stand_in": False,
            "base_urls": [],
            "profile": [profile_of(seat.settings).name for seat in seats],
            "profile_version": [profile_of(seat.settings).version for seat in seats],
            "compat": settings.compat,
            "panel": [judge_record(seat.settings) | {"name": seat.name, "weight": seat.weight} for seat in seats],
            "quorum": settings.quorum or len(seats),
            "disagreement": settings.disagreement,
        }
    if not asks_for_verdicts(settings):
        return dict.fromkeys(("name", "profile", "profile_version"), None) | {
            "stand_in": False,
            "base_urls": [],
            "compat": None,
        }
    embedded = settings.judge is not None
    return {
        "name": judge_name(settings),
        "stand_in": embedded,
        "base_urls": list(settings.base_url),
        "profile": None if embedded else profile_of(settings).name,
        "profile_version": None if embedded else profile_of(settings).version,
        "compat": settings.compat,
    }


def reward_record(settings: Settings) -> dict[str, Any] | None:
    """Return what rewards are made of beside verdicts, and the versions of what grades them; None for these alone."""
    if not has_components(settings):
        return None
    rules = [component.option("rule") or "" for component in settings.components if component.kind == "rule"]
    functions = {c.name: c.option("python") or "" for c in settings.components if c.kind == "python"}
    return {
        "components": {name: sources_of(settings)[name] for name in component_names(settings)},
        "rules": {name: read_phrases(name).version for name in rules},
        "functions": {name: version_of(place) for name, place in functions.items()},
        "graders": {
            grader.component: {
                "model": grader.seat.settings.model,
                "base_urls": list(grader.seat.settings.base_url),
                "profile": grader.profile.name,
                "profile_version": grader.profile.version,
            }
            for grader in graders_in(settings)
        },
        "diversity": None if settings.diversity is None else asdict(settings.diversity) | {"judge": None},
        "total": None if settings.total is None else asdict(settings.total) | _by_component(settings.total),
    }


def _by_component(total: TotalTable) -> dict[str, Any]:
    return {"weights": dict(total.weights), "gates": dict(total.gates)}


def versions_record() -> dict[str, str]:
    """Return what this was made with."""
    return {"genrm": __version__, "python": platform.python_version()}


def judge_name(settings: Settings) -> str | None:
    """Name the judge: its model, those of a panel, or the embedded one with its version."""
    if not asks_for_verdicts(settings):
        return None
    if settings.panel:
        return " + ".join(seat.name for seat in judges_of(settings))
    return LEXICAL_VERSION if settings.judge is not None else settings.model
