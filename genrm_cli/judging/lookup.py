"""Find judge families and rubric sets by name: the built-in ones, those of installed packages, and
the user's files.

Each file in `families` defines the built-in family of that name, and each file in `rubrics/sets` a
rubric set."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from msgspec.structs import replace

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.extensions import Seam, extension_names, load_extension
from genrm_cli.judging.profiles.custom import parse_custom_profile
from genrm_cli.judging.profiles.profile import AnyProfile, GradingProfile, Profile
from genrm_cli.judging.profiles.scores_json import parse_scores_json_as_reference
from genrm_cli.judging.rubrics.rubric_sets import RubricSet, parse_rubric_set
from genrm_cli.settings.kinds import check_request_field
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.settings.sources.settings_file import read_toml

ROLES_PROFILE = "nemotron"
"""The profile with the GenRMs' own roles, which only their chat templates support."""

DEFAULT_PROFILE = "nemotron-plain"
"""The profile of an unknown model: one user message, which every chat model accepts."""

LISTWISE_PROFILE = "listwise"
"""The profile of any chat model that judges lists."""

_SCHEMA_PROFILES = {DEFAULT_PROFILE: "json", LISTWISE_PROFILE: "listwise-json"}

_FAMILIES = "genrm_cli.judging.profiles.families"
_READ_BY_THE_REFERENCE = ("nemotron", "nemotron-plain", "nemotron-ultra", "json")


class ProfileSource(StrEnum):
    """The reason why a judge has its profile."""

    SETTING = "setting"
    MODEL = "model name"
    COMPAT = "compat"
    DEFAULT = "default"
    PROBE = "probe"


@cache
def _builtin_names() -> tuple[str, ...]:
    names = [file.name.rpartition(".") for file in files(_FAMILIES).iterdir()]
    stems = (stem for stem, _, kind in names if kind in ("py", "toml") and stem != "__init__")
    return tuple(sorted(stem.replace("_", "-") for stem in stems))


@cache
def _load_builtin(name: str) -> AnyProfile:
    """Return a built-in profile, its file read once for each process."""
    file = files(_FAMILIES).joinpath(f"{name}.toml")
    if not file.is_file():
        profile: AnyProfile = import_module(f"{_FAMILIES}.{name.replace('-', '_')}").PROFILE
        return profile
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    # Built-in families number their versions, so that a new `about` leaves journals valid.
    version: int = table.pop("version")
    models = tuple(table.pop("models", ()))
    return replace(parse_custom_profile(table, f"{name}.toml"), version=version, models=models)


class _Profiles(Mapping[str, AnyProfile]):
    """All profiles by name, built-in ones first, each loaded when it is first used."""

    def __getitem__(self, name: str) -> AnyProfile:
        if name in _builtin_names():
            return _load_builtin(name)
        if name not in extension_names(Seam.PROFILES):
            raise KeyError(name)
        profile = load_extension(Seam.PROFILES, name, AnyProfile)
        if profile.name != name:
            # Names and versions identify verdicts in journals.
            raise UsageError(
                f"{name} of {Seam.PROFILES} is a profile named {profile.name}; rename one."
            )
        return profile

    def __iter__(self) -> Iterator[str]:
        installed = extension_names(Seam.PROFILES)
        if taken := set(installed) & set(_builtin_names()):
            raise UsageError(
                f"a package registers {min(taken)!r}, the name of a built-in profile; uninstall it."
            )
        yield from (*_builtin_names(), *installed)

    def __len__(self) -> int:
        return len(list(iter(self)))


PROFILES: Mapping[str, AnyProfile] = _Profiles()


def profile_of_model(model: str | None) -> str | None:
    """Return the built-in profile of a model by its name, `organisation/name` or a path; None for
    an unknown name.
    """
    last_part = (model or "").rstrip("/").rpartition("/")[2].lower()
    return next(
        (name for pattern, name in _model_patterns() if fnmatchcase(last_part, pattern)), None
    )


@cache
def _model_patterns() -> list[tuple[str, str]]:
    """Return the patterns of model names; those of the end first, which fine-tunes and paths
    usually keep.
    """
    patterns = [
        (pattern, name) for name in _builtin_names() for pattern in _load_builtin(name).models
    ]
    return sorted(patterns, key=lambda each: not each[0].startswith("*"))


def source_of_profile(config: JudgeConfig) -> ProfileSource:
    """Return why a judge has its profile."""
    judge = config.judge
    if judge.profile is not None or judge.judging == "listwise":
        return ProfileSource.SETTING
    if profile_of_model(judge.model) is not None:
        return ProfileSource.MODEL
    return ProfileSource.DEFAULT if judge.compat is None else ProfileSource.COMPAT


def find_profile(name: str | None, model: str | None) -> AnyProfile:
    """Return a profile by its name, its TOML file, or else by the model name; `DEFAULT_PROFILE` for
    an unknown model. Raise `UsageError` for a wrong name.
    """
    if name is None:
        return PROFILES[profile_of_model(model) or DEFAULT_PROFILE]
    if name.endswith(".toml"):
        return _own_profile(name)
    if name in PROFILES:
        return PROFILES[name]
    close = difflib.get_close_matches(name.lower(), PROFILES, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UsageError(
        f"unknown profile {name!r}; expected one of {', '.join(sorted(PROFILES))}.{hint}"
    )


@cache
def _own_profile(path: str) -> AnyProfile:
    profile = parse_custom_profile(read_toml(Path(path)), path)
    if profile.name in PROFILES:
        raise UsageError(
            f"{path}: the name {profile.name} belongs to another profile; choose another name."
        )
    for name in profile.request_fields:
        try:
            check_request_field(name)
        except ValueError as error:
            raise UsageError(f"{path}: [request]: {error}") from error
    return profile


def schema_profile_of(profile: AnyProfile | None) -> AnyProfile | None:
    """Return the profile that asks for the same with a JSON schema, for a model that keeps to no
    form in words; None if there is none.
    """
    name = None if profile is None else _SCHEMA_PROFILES.get(profile.name)
    return None if name is None else PROFILES[name]


def profile_of(config: JudgeConfig) -> AnyProfile:
    """Return the profile of a judge, with NeMo Gym's parser if `compat` asks for it."""
    judge = config.judge
    if judge.judging == "listwise":
        return _listwise_profile(config)
    if judge.compat is None:
        return find_profile(judge.profile, judge.model)
    # NeMo Gym asks every judge with its roles.
    profile = find_profile(
        judge.profile or profile_of_model(judge.model) or ROLES_PROFILE, judge.model
    )
    if not isinstance(profile, Profile) or profile.name not in _READ_BY_THE_REFERENCE:
        raise UsageError(
            SettingRef("compat", judge.compat),
            f" parses JSON scores, which the profile {profile.name} does not ask for; "
            "omit one of them.",
        )
    score = config.default_score
    read = partial(parse_scores_json_as_reference, default_score=score)
    # Its own name lets the journal distinguish verdicts by parser and defaults.
    name = f"{profile.name}+{judge.compat}-{score:g}"
    return replace(profile, name=name, parse_reply=read, verdict_forms=None)


def _listwise_profile(config: JudgeConfig) -> AnyProfile:
    judge = config.judge
    profile = find_profile(judge.profile or LISTWISE_PROFILE, judge.model)
    if not isinstance(profile, GradingProfile) or not profile.whole_group:
        raise UsageError(
            f"the profile {profile.name} does not show lists; omit it, or ",
            SettingRef("judging", "listwise"),
            ".",
        )
    return profile


def find_rubric_set(name: str) -> RubricSet:
    """Return a rubric set by its name or its TOML file; raise `UsageError` for a wrong one."""
    if name.endswith(".toml"):
        return parse_rubric_set(read_toml(Path(name)), name)
    sets = _builtin_rubric_sets()
    if name not in sets:
        raise UsageError(f"unknown rubric set {name!r}; expected {', '.join(sets)} or a TOML file.")
    return sets[name]


@cache
def _builtin_rubric_sets() -> dict[str, RubricSet]:
    """Return the built-in rubric sets.

    The set for therapeutic sessions screens a model's behaviour in simulated sessions. It is not a
    clinical judgement."""
    sets = {}
    for file in files("genrm_cli.judging.rubrics").joinpath("sets").iterdir():
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        version: int = table.pop("version")
        rubric_set = replace(parse_rubric_set(table, file.name), version=version)
        sets[rubric_set.name] = rubric_set
    return dict(sorted(sets.items()))
