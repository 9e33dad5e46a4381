"""The built-in judge families, and the choice of a family by model name."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import chain

from genrm_cli import catalog
from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.custom import parse_custom_profile
from genrm_cli.judging.profiles.families import (
    brrm,
    nemotron,
    nemotron_boxed,
    nemotron_principle,
    nemotron_ultra,
    rewardanything,
)
from genrm_cli.judging.profiles.profile import AnyProfile

ROLES_PROFILE = "nemotron"
"""The profile with the GenRMs' own roles, which only their chat templates support."""

DEFAULT_PROFILE = "nemotron-plain"
"""The profile of an unknown model: one user message, which every chat model accepts."""

_FAMILIES = "genrm_cli.judging.profiles.families"
_IN_PYTHON: dict[str, AnyProfile] = {
    module.PROFILE.name: module.PROFILE
    for module in (nemotron, nemotron_ultra, nemotron_boxed, nemotron_principle, brrm, rewardanything)
}
# The end of a model's name, in lower case, and its profile. Fine-tunes and paths usually keep the end.
_PROFILE_OF_MODEL = {
    "qwen3-nemotron-235b-a22b-genrm": "nemotron",
    "qwen3-nemotron-235b-a22b-genrm-2603": "nemotron",
    "nvidia-nemotron-3-ultra-550b-a55b-genrm": "nemotron-ultra",
    "llama-3_3-nemotron-super-49b-genrm": "nemotron-boxed",
    "qwen3-nemotron-32b-genrm-principle": "nemotron-principle",
    "qwen3-nemotron-8b-brrm": "brrm",
    "qwen3-nemotron-14b-brrm": "brrm",
    "llama-3_3-nemotron-super-49b-genrm-multilingual": "nemotron-boxed",
}
# The beginning of a model's name, in lower case, for families of many sizes.
_PROFILE_OF_FAMILY = {
    "skywork-critic-": "mt-bench",
    "evalplanner": "mt-bench",
    "rm-r1-": "rm-r1",
    "j1-32b": "j1",
    "j1-llama-": "j1",
    "j1-qwen-": "j1",
    "think-rm": "think-rm",
    "prometheus-7b-v2": "prometheus-2",  # version 1 judges one response alone
    "prometheus-8x7b-v2": "prometheus-2",
    "prometheus-bgb-8x7b-v2": "prometheus-2",
    "judgelm-": "judgelm",
    "rewardanything": "rewardanything",
    "rubricrm": "rubric-rm",
    "rubric-rm": "rubric-rm",
}


@cache
def _load(name: str) -> AnyProfile:
    """Return a built-in profile, its file read once for each process."""
    if name in _IN_PYTHON:
        return _IN_PYTHON[name]
    table = tomllib.loads(files(_FAMILIES).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    # Built-in families number their versions, so that a new `about` leaves journals valid.
    version: int = table.pop("version")
    return replace(parse_custom_profile(table, f"{name}.toml"), version=version)


class _LazyProfiles(Mapping[str, AnyProfile]):
    """All built-in profiles by name, each loaded when it is first used."""

    def __getitem__(self, name: str) -> AnyProfile:
        if name not in catalog.PROFILES:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(catalog.PROFILES)

    def __len__(self) -> int:
        return len(catalog.PROFILES)

    def __contains__(self, name: object) -> bool:
        return name in catalog.PROFILES


PROFILES: Mapping[str, AnyProfile] = _LazyProfiles()


def profile_for(name: str | None, model: str | None) -> AnyProfile:
    """Choose a profile by its own name, or else by the name of the model; `DEFAULT_PROFILE` for an unknown model.

    Args:
        name: a key of `PROFILES`, or None to go by the model.
        model: name of the model on the endpoint, possibly `organisation/name` or a path.

    Raises:
        UsageError: no profile has that name.
    """
    if name is None:
        return PROFILES[profile_of_model(model) or DEFAULT_PROFILE]
    if name in PROFILES:
        return PROFILES[name]
    close = difflib.get_close_matches(name.lower(), PROFILES, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"unknown profile {name!r}; expected one of {', '.join(sorted(PROFILES))}.{hint}")


def profile_of_model(model: str | None) -> str | None:
    """Return the profile of a model by its name; None for an unknown name."""
    last_part = (model or "").rstrip("/").rpartition("/")[2].lower()
    by_ending = (profile for ending, profile in _PROFILE_OF_MODEL.items() if last_part.endswith(ending))
    by_beginning = (profile for start, profile in _PROFILE_OF_FAMILY.items() if last_part.startswith(start))
    return next(chain(by_ending, by_beginning), None)
