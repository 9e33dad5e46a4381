"""The digest of settings: what outputs are made of, as a sha256 that never changes for the same settings."""

import tomllib
from collections.abc import Mapping

import pytest

from genrm_cli.settings import Settings, changed, settings_from
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.toml_file import SettingsFile
from genrm_cli.settings.table import all_settings, digest_of, value_of

Flags = Mapping[str, str | tuple[str, ...]]

PANEL = """
[[judge]]
name = "a"
model = "m"
weight = 2
temperature = 0
base_url = "http://x/v1"
[[judge]]
model = "n"
profile = "json"
call_timeout = "5m"
"""
COMPONENTS = """
[components.safety]
[components.c]
kind = "rubric"
set = "therapeutic"
model = "g"
base_url = "http://y/v1"
temperature = 0.1
[components.consistency]
pattern = "(a+)"
[diversity]
method = "llm"
model = "d"
[total]
weights = { genrm = 1, safety = 0.5 }
gates = { safety = 0.2 }
optional = ["safety"]
clip = [0, inf]
normalise = true
"""
NGRAMS = "[diversity]\nthreshold = 0.25\nn = 4\ncomponents = ['genrm']\n"
A_JUDGE = {
    "base_url": ("http://localhost:8000/v1",),
    "model": "m",
    "temperature": "0.5",
    "top_p": "0.9",
    "max_reply_tokens": "512",
    "principle": "Be short.",
    "profile": "json",
}


# Recorded at version 0.1.0, before settings were renamed and split by subject.
@pytest.mark.parametrize(
    ("flags", "toml", "digest"),
    [
        pytest.param({}, "", "740915e8986c68e94742c29944eb10e137ff98fb08a7556d53ee6f7ad49bc882", id="defaults"),
        pytest.param(
            {"judge": "lexical"}, "", "af89a40eeddda16bedbb361681b049a6c74291bb84d5803fc85f51dd8610037b", id="lexical"
        ),
        pytest.param(A_JUDGE, "", "712b929db13dffd28b248ebe778bad68bbfaf7bf082f7dc1def5a05f19c26cda", id="a judge"),
        pytest.param(
            {"strategy": "swap", "ring_k": "2.5", "repeats": "3", "both_orders": "true", "seed": "7"},
            "",
            "15ae04e660f2ed0e048b7188f3997a158c4f1049fcb1dd948fb7ceec4a745ab4",
            id="pairing",
        ),
        pytest.param(
            {"strategy": "all_pairs", "order_balanced": "true", "budget": "100"},
            "",
            "6141c3055278cdca5fc78fea5a1a889b28d3f205b9d1a6f128968ed0824094a0",
            id="all pairs",
        ),
        pytest.param(
            {"compat": "nemo-gym", "model": "m"},
            "",
            "b157d885de578b15c60388f59c2a9fb72c50f5cca1f534fb16bf83ea9f02a36f",
            id="compat",
        ),
        pytest.param(
            {"preset": "nemotron-3-super", "answer_bonus": "0.25", "unscored": "drop", "min_reliability": "0.3"},
            "",
            "628d3deabfac1903b72425f64249369ac61a1c83acb1219ac93d8757abc82add",
            id="preset",
        ),
        pytest.param(
            {
                "dialect": "chat",
                "group_by": "metadata.task",
                "require_metadata": ("synthetic=true", "a.b=c"),
                "redact_pattern": ("email", "[0-9]{3,5}"),
            },
            "",
            "8eee0069a43eb2611ddd1027280be83f6406a46234e1eb828c93d9b536173963",
            id="input",
        ),
        pytest.param(
            {"max_total_tokens": "5", "max_calls": "7", "retries": "0", "lease_expiry": "90s"},
            "",
            "740915e8986c68e94742c29944eb10e137ff98fb08a7556d53ee6f7ad49bc882",
            id="limits only",
        ),
        pytest.param(
            {"quorum": "1", "disagreement": "missing"},
            PANEL,
            "2a4acc354c98b2604be8939bf0e22f2ff0e34d762b7e8e74f60ecef52961ec3c",
            id="panel",
        ),
        pytest.param(
            {"component": ("rank", "field:x.y")},
            COMPONENTS,
            "42da272576cd820aeb77076011eda737e22743a844d2f079e3984f13abc588bd",
            id="components",
        ),
        pytest.param(
            {"judge": "lexical"},
            NGRAMS,
            "9cd982df8c2fe194775f16ccd6a47673e87b094fb3d06abf607d03bf6e0a1a39",
            id="ngrams",
        ),
    ],
)
def test_a_digest_never_changes(flags: Flags, toml: str, digest: str) -> None:
    """Outputs of an earlier version are up to date under its settings; its default estimator was `combined`."""
    flags = flags if "compat" in flags else {"estimator": "combined", **flags}
    settings, _ = resolve_settings(flags, {}, SettingsFile("genrm.toml", tomllib.loads(toml)))
    assert digest_of(settings) == digest


DECIDING = """
    format limit group_by view view_max_chars answer_field answer_tool ignore_media empty
    prompt_field response_field id_field
    require_metadata strategy ring_k budget repeats both_orders seed judge model profile
    principle temperature top_p max_reply_tokens redact_pattern compat quorum disagreement estimator min_reliability
    reasoning_bonus answer_bonus top_percentile group_reasoning_length_penalty_coeff group_answer_length_penalty_coeff
    group_style_penalty_coeff default_score unscored use_principle default_ranking
"""


def another(value: object) -> object:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return (*value, "more") if isinstance(value, tuple) else "another"


def test_the_digest_covers_exactly_the_settings_that_can_change_a_reward() -> None:
    """Endpoints, limits, outputs and storage can change without a new run."""
    changes = {s.name: changed(Settings(), **{s.name: another(value_of(Settings(), s.name))}) for s in all_settings()}
    digests = {name: digest for name, each in changes.items() if (digest := digest_of(each)) != digest_of(Settings())}
    assert set(digests) == set(DECIDING.split())
    assert len(set(digests.values())) == len(digests)
    all_pairs = [digest_of(settings_from(strategy="all_pairs", order_balanced=balanced)) for balanced in (True, False)]
    assert all_pairs[0] != all_pairs[1]
    assert digest_of(settings_from(temperature=0.0)) != digest_of(settings_from(temperature=None))
