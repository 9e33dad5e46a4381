"""Which profile the settings ask for."""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from genrm_cli.errors import UsageError
from genrm_cli.judging.lookup.builtin_profiles import PROFILES, profile_for
from genrm_cli.judging.profiles.custom import parse_custom_profile
from genrm_cli.judging.profiles.parsing.compat import parse_scores_json_as_reference
from genrm_cli.judging.profiles.profile import AnyProfile, GradingProfile
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.settings.resolve import read_toml

_READ_BY_THE_REFERENCE = ("nemotron", "nemotron-plain", "nemotron-ultra", "json")


def find_profile(name: str | None, model: str | None) -> AnyProfile:
    """Return a profile by its name, the user's own by its TOML file, or else by the model's name.

    Raises:
        UsageError: there is none, or the file holds none.
    """
    return _own_profile(name) if name is not None and name.endswith(".toml") else profile_for(name, model)


@cache
def _own_profile(path: str) -> AnyProfile:
    profile = parse_custom_profile(read_toml(Path(path)), path)
    if profile.name in PROFILES:
        raise UsageError(f"{path}: {profile.name} is the name of a profile that there is; give yours another one.")
    return profile


def profile_of(config: JudgeConfig) -> AnyProfile:
    """Return the profile of a judge, with the reference's reading under `--compat`."""
    judge = config.judge
    profile = find_profile(judge.profile, judge.model)
    if judge.compat is None:
        return profile
    if isinstance(profile, GradingProfile) or profile.name not in _READ_BY_THE_REFERENCE:
        raise UsageError(
            f"--compat {judge.compat} reads JSON scores, which the profile {profile.name} does not ask for."
        )
    read = partial(parse_scores_json_as_reference, default_score=config.default_score)
    # Its own name, so that the journal does not take verdicts read one way, or filled with one default, for others.
    return replace(profile, name=f"{profile.name}+{judge.compat}-{config.default_score:g}", parse_reply=read)
