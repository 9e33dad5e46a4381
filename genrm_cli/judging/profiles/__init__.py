"""The families of judges, and which one a model belongs to."""

import difflib
from itertools import chain

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles import (
    arena_hard,
    brrm,
    j1,
    json,
    judgelm,
    mt_bench,
    nemotron,
    nemotron_boxed,
    nemotron_plain,
    nemotron_principle,
    nemotron_ultra,
    prometheus_2,
    rewardanything,
    rm_r1,
    rubric_rm,
    think_rm,
)
from genrm_cli.judging.profiles.profile import AnyProfile

PROFILES: dict[str, AnyProfile] = {
    profile.name: profile
    for profile in (
        nemotron.PROFILE,
        nemotron_plain.PROFILE,
        nemotron_ultra.PROFILE,
        nemotron_boxed.PROFILE,
        nemotron_principle.PROFILE,
        brrm.PROFILE,
        json.PROFILE,
        arena_hard.PROFILE,
        mt_bench.PROFILE,
        rm_r1.PROFILE,
        j1.PROFILE,
        think_rm.PROFILE,
        prometheus_2.PROFILE,
        judgelm.PROFILE,
        rubric_rm.PROFILE,
        rewardanything.PROFILE,
    )
}
DEFAULT_PROFILE = "nemotron"

# The end of a model's name, in lower case, and the profile for it. A fine-tune or a path usually keeps the end.
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
# The beginning of a model's name, in lower case: families that come in many sizes.
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


def profile_for(name: str | None, model: str | None) -> AnyProfile:
    """Choose how a judge is asked: by the profile's name if there is one, else by the model's, else `nemotron`.

    Args:
        name: a key of `PROFILES`, or None to go by the model.
        model: the model's name as the endpoint knows it, `organisation/name` or a path included.

    Raises:
        UsageError: there is no profile of that name.
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
    by_ending = (profile for ending, profile in _PROFILE_OF_MODEL.items() if last_part.endswith(ending))
    by_beginning = (profile for start, profile in _PROFILE_OF_FAMILY.items() if last_part.startswith(start))
    return next(chain(by_ending, by_beginning), DEFAULT_PROFILE)
