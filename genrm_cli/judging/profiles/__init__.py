"""The families of judges, and which one a model belongs to."""

import difflib

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles import nemotron, nemotron_plain
from genrm_cli.judging.profiles.profile import Profile

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        nemotron.PROFILE,
        nemotron_plain.PROFILE,
    )
}
DEFAULT_PROFILE = "nemotron"

# The end of a model's name, in lower case, and the profile for it. A fine-tune or a path usually keeps the end.
_PROFILE_OF_MODEL = {
    "qwen3-nemotron-235b-a22b-genrm": "nemotron",
    "qwen3-nemotron-235b-a22b-genrm-2603": "nemotron",
}


def profile_for(name: str | None, model: str | None) -> Profile:
    """Choose how a judge is asked: by the profile's name if there is one, else by the model's, else `nemotron`.

    Args:
        name: a key of `PROFILES`, or None to go by the model.
        model: the model's name as the endpoint knows it, `organisation/name` or a path included.

    Raises:
        UsageError: There is no profile of that name.
    """
    if name is None:
        return PROFILES[_name_for_model(model or "")]
    if name in PROFILES:
        return PROFILES[name]
    close = difflib.get_close_matches(name.lower(), PROFILES, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"No judge profile is called {name!r}; known are {', '.join(sorted(PROFILES))}.{hint}")


def _name_for_model(model: str) -> str:
    last_part = model.rstrip("/").rpartition("/")[2].lower()
    known = (profile for ending, profile in _PROFILE_OF_MODEL.items() if last_part.endswith(ending))
    return next(known, DEFAULT_PROFILE)
