"""Find the profile named by the settings."""

from dataclasses import replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.judging.lookup.builtin_profiles import PROFILES, ROLES_PROFILE, profile_for, profile_of_model
from genrm_cli.judging.profiles.custom import parse_custom_profile
from genrm_cli.judging.profiles.parsing.compat import parse_scores_json_as_reference
from genrm_cli.judging.profiles.profile import AnyProfile, Profile
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.settings.sources.toml_file import read_toml
from genrm_cli.verdicts import MIDDLE_RANKING

_READ_BY_THE_REFERENCE = ("nemotron", "nemotron-plain", "nemotron-ultra", "json")


class ProfileSource(StrEnum):
    """Why a judge is prompted with its profile."""

    SETTING = "setting"
    MODEL = "model name"
    COMPAT = "compat"
    DEFAULT = "default"
    PROBE = "probe"


def source_of_profile(config: JudgeConfig) -> ProfileSource:
    """Return why a judge has its profile."""
    judge = config.judge
    if judge.profile is not None:
        return ProfileSource.SETTING
    if profile_of_model(judge.model) is not None:
        return ProfileSource.MODEL
    return ProfileSource.DEFAULT if judge.compat is None else ProfileSource.COMPAT


def find_profile(name: str | None, model: str | None) -> AnyProfile:
    """Return a profile by its name, its TOML file, or else by the model name.

    Raises:
        UsageError: unknown name, or an invalid file.
    """
    return _own_profile(name) if name is not None and name.endswith(".toml") else profile_for(name, model)


@cache
def _own_profile(path: str) -> AnyProfile:
    profile = parse_custom_profile(read_toml(Path(path)), path)
    if profile.name in PROFILES:
        raise UsageError(f"{path}: the name {profile.name} belongs to a built-in profile; choose another name.")
    return profile


def profile_of(config: JudgeConfig) -> AnyProfile:
    """Return the profile of a judge, with NeMo Gym's parser if `compat` asks for it."""
    judge = config.judge
    if judge.compat is None:
        return find_profile(judge.profile, judge.model)
    # NeMo Gym asks every judge with its roles.
    profile = find_profile(judge.profile or profile_of_model(judge.model) or ROLES_PROFILE, judge.model)
    if not isinstance(profile, Profile) or profile.name not in _READ_BY_THE_REFERENCE:
        raise UsageError(
            SettingRef("compat", judge.compat),
            f" parses JSON scores, which the profile {profile.name} does not ask for.",
        )
    score, ranking = config.default_score, config.default_ranking
    read = partial(parse_scores_json_as_reference, default_score=score, default_ranking=ranking)
    # A name of its own, so that the journal distinguishes verdicts by parser and defaults.
    name = f"{profile.name}+{judge.compat}-{score:g}" + ("" if ranking == MIDDLE_RANKING else f"-{ranking:g}")
    return replace(profile, name=name, parse_reply=read)
