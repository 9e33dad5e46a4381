"""All that reads replies: every profile of a judge that compares two responses, and two of a user's
own.
"""

import tomllib

from judge_families import BETTER, FAMILIES, MUCH, MUCH_WORSE, PAIR_PROFILES, WORSE, Family

from genrm_cli.judging.profiles.custom import parse_custom_profile
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.requests import PairwisePrompt

UNQUOTED = PairwisePrompt([], "One answer.", "Another answer.")
"""A prompt whose responses hold no verdict."""

_OWN = """
delimiters = ["<answer>", "</answer>", "```", "[==="]
[[messages]]
role = "user"
content = "{conversation}\\n<answer>{response_1}</answer>\\n```\\n{response_2}\\n``` {principle}"
[verdict]
"""
_BY_PATTERN = (
    "pattern = '^Winner: (?P<label>\\w+)$'\nlabels = { first = 'better', second = 'worse' }"
)
_BY_KEYS = "json = { score_1 = 'a', score_2 = 'b' }\nscale = [1, 10]"

READERS: dict[str, tuple[Profile, Family]] = {
    **{name: (PAIR_PROFILES[name], family) for name, family in FAMILIES.items()},
    "own-pattern": (
        parse_custom_profile(tomllib.loads(_OWN + _BY_PATTERN), "own-pattern.toml"),
        Family({"Winner: first": BETTER, "Winner: second": WORSE}, str, before="\n", after="\n"),
    ),
    "own-keys": (
        parse_custom_profile(tomllib.loads(_OWN + _BY_KEYS), "own-keys.toml"),
        Family({'{"a": 10, "b": 1}': MUCH, '{"a": 1, "b": 10}': MUCH_WORSE}, str),
    ),
}
