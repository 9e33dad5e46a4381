"""The names that users may type, each defined once."""

PROFILES = (
    "nemotron",
    "nemotron-plain",
    "nemotron-ultra",
    "nemotron-boxed",
    "nemotron-principle",
    "brrm",
    "json",
    "arena-hard",
    "mt-bench",
    "rm-r1",
    "j1",
    "think-rm",
    "prometheus-2",
    "judgelm",
    "rubric-rm",
    "rewardanything",
)
"""Judge families: each is a TOML file or a module of `judging/profiles/families`."""
