"""The table of settings: every one is explained, bounded, and in the digest if it can change a reward."""

import dataclasses
import typing

import pytest

from genrm_cli.rollouts.dialects import DIALECTS
from genrm_cli.settings import Settings, settings_from
from genrm_cli.settings.declare import Panel
from genrm_cli.settings.reward_settings import PRESETS, PairingSettings
from genrm_cli.settings.table import all_settings, changed, digest_of, value_of

FIELDS = {setting.name: setting for setting in all_settings()}
COEFFICIENTS = (
    "reasoning_bonus",
    "answer_bonus",
    "top_percentile",
    "group_reasoning_length_penalty_coeff",
    "group_answer_length_penalty_coeff",
    "group_style_penalty_coeff",
)


@pytest.mark.parametrize("setting", FIELDS.values(), ids=FIELDS)
def test_every_setting_is_explained(setting):
    """A setting has a sentence, a panel, a type, and a default within its own bounds and choices."""
    about = setting.declared
    assert about.meaning.endswith((".", ")", "?"))
    assert about.panel in typing.get_args(Panel)
    default = setting.default
    assert default is None or (default == () if setting.is_many else type(default) is setting.type)
    assert default is None or not about.choices or default in about.choices
    if isinstance(default, int | float) and not isinstance(default, bool):
        assert about.low is None or default >= about.low
        assert about.high is None or default <= about.high


def test_keys_and_flags_are_unique():
    """No two settings share a name in files, a long flag or a short one."""
    for names in ([s.key for s in FIELDS.values()], [s.flag for s in FIELDS.values()]):
        assert len(set(names)) == len(names)
    for setting in FIELDS.values():
        negative = setting.declared.negative
        assert negative is None or (setting.type is bool and negative.startswith("--no-"))
    short = [s.declared.flag for s in FIELDS.values() if s.declared.flag]
    assert len(set(short)) == len(short)


def test_the_dialect_choices_are_the_dialects():
    """`--dialect` takes exactly the names in the table of dialects, and its help lists them."""
    about = FIELDS["dialect"].declared
    assert about.choices == tuple(DIALECTS)
    assert all(name in about.meaning for name in DIALECTS)


def test_the_help_of_the_profile_says_where_they_are_listed():
    """`--profile` has no choices in its help: there are too many to explain."""
    assert "`genrm profiles`" in FIELDS["profile"].declared.meaning


def test_the_documented_defaults_hold():
    """The defaults that the documentation promises."""
    settings = Settings()
    assert (settings.pairing.strategy, settings.pairing.ring_k, settings.rewards.estimator) == ("ring", 1.0, "combined")
    assert (settings.pairing.repeats, settings.pairing.seed, settings.judge.compat, settings.rewards.default_score) == (
        1,
        0,
        None,
        3.0,
    )
    assert (settings.limits.concurrency, settings.limits.connect_timeout, settings.limits.call_timeout) == (
        "auto",
        10.0,
        600.0,
    )
    assert (settings.limits.comparison_timeout, settings.limits.give_up_after, settings.limits.deadline) == (
        3600.0,
        300.0,
        None,
    )
    assert (
        settings.limits.retries,
        settings.limits.reask,
        settings.rewards.unscored,
        settings.rewards.max_unscored,
    ) == (5, 3, "null", 0.05)
    assert (
        settings.judge.probe,
        settings.journal.use_journal,
        settings.limits.hedge,
        settings.journal.only_failed,
    ) == (True, True, False, False)
    assert (settings.limits.max_calls, settings.limits.max_total_tokens, settings.limits.max_cost) == (None, None, None)
    assert settings.input.max_line_bytes == 64_000_000
    assert [value_of(settings, name) for name in COEFFICIENTS] == [0, 0, 0.2, 0, 0, 0]


@pytest.mark.parametrize(
    ("preset", "coefficients"),
    [
        ("nemotron-3-nano", (0.5, 0.5, 0.2, 0.5, 0.5, 0)),
        ("nemotron-3-super", (0.5, 0.5, 0.2, 0.3, 0.35, 0.05)),
        ("nemotron-3-super-rlvr", (0, 0, 0.2, 0.1, 0.1, 0.1)),
        ("nemotron-3-ultra", (0.5, 0.5, 0.2, 0.1, 0.25, 0)),
    ],
)
def test_the_presets_are_the_released_coefficients(preset, coefficients):
    """Bonuses, top share, lengths of reasoning and answer, style: as NVIDIA released them."""
    settings = settings_from(**PRESETS[preset])
    assert tuple(value_of(settings, name) for name in COEFFICIENTS) == coefficients


def test_every_preset_is_tested_and_offered():
    """A new preset brings its coefficients to this file and its name to the help."""
    assert list(PRESETS) == ["nemotron-3-nano", "nemotron-3-super", "nemotron-3-super-rlvr", "nemotron-3-ultra"]
    assert FIELDS["preset"].declared.choices == tuple(PRESETS)
    assert all(name in FIELDS["preset"].declared.meaning for name in PRESETS)


OTHERS = {
    "dialect": "chat",
    "group_by": "metadata.task",
    "strategy": "all_pairs",
    "repeats": 2,
    "order_balanced": True,
    "judge": "lexical",
    "model": "m",
    "profile": "nemotron-plain",
    "principle": "Be safe.",
    "temperature": 0.1,
    "top_p": 0.9,
    "max_reply_tokens": 100,
    "compat": "nemo-gym",
    "default_score": 2.0,
    "unscored": "3.0",
    **dict.fromkeys(COEFFICIENTS, 0.7),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_digest_follows_what_changes_rewards(name):
    """Another value of a setting that decides rewards gives another digest."""
    assert digest_of(changed(Settings(), **{name: OTHERS[name]})) != digest_of(Settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", "1"),
        ("connect_timeout", 1.0),
        ("call_timeout", 1.0),
        ("comparison_timeout", 1.0),
        ("deadline", 60.0),
        ("give_up_after", 1.0),
        ("retries", 0),
        ("reask", 0),
        ("hedge", True),
        ("max_calls", 10),
        ("max_tokens", 10),
        ("max_cost", 10.0),
        ("price_in", 1.0),
        ("price_out", 1.0),
        ("journal", "elsewhere.sqlite"),
        ("use_journal", False),
        ("judge_id", "ours"),
        ("only_failed", True),
        ("log_json", "events.jsonl"),
        ("base_url", ("http://elsewhere/v1",)),
        ("api_key_env", "OTHER"),
        ("api_key_file", "key.txt"),
        ("ca_bundle", "ca.pem"),
        ("probe", False),
        ("strict", True),
        ("max_unscored", 1.0),
        ("output", "elsewhere.jsonl"),
        ("overwrite", True),
        ("keep_replies", True),
        ("json_output", True),
        ("quiet", True),
        ("s3_endpoint_url", "http://elsewhere"),
        ("s3_profile", "p"),
        ("s3_region", "r"),
        ("any_prefix", True),
        ("preset", "nemotron-3-nano"),  # its coefficients are in the digest, its name is not
    ],
)
def test_the_digest_does_not_follow_the_rest(name, value):
    """How fast, from where and to where: the same rewards, the same digest."""
    assert name not in OTHERS
    assert digest_of(changed(Settings(), **{name: value})) == digest_of(Settings())


def test_the_digest_knows_two_values_of_one_setting_apart():
    """Null and 0 differ, and no two of many variations share a digest."""
    digests = [digest_of(changed(Settings(), **{name: value})) for name, value in OTHERS.items()]
    assert len(set(digests)) == len(OTHERS)
    assert digest_of(settings_from(temperature=0.0)) != digest_of(settings_from(temperature=None))


def test_settings_cannot_be_changed():
    """The effective settings are frozen: what the digest says stays true."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().pairing = PairingSettings()
