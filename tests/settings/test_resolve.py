"""Resolution of settings: precedence, checks, files, and the state folder."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import UsageError
from genrm_cli.settings.components import Shaping
from genrm_cli.settings.kinds import parse_duration_s
from genrm_cli.settings.resolve import resolve_settings, state_folder
from genrm_cli.settings.reward_settings import PRESETS
from genrm_cli.settings.sources.settings_file import (
    SettingsFile,
    find_settings_file,
    read_settings_file,
)
from genrm_cli.settings.table import all_settings, value_of

LENGTH = "group_answer_length_penalty_coeff"


def resolve(flags=None, environ=None, file=None):
    """Resolve; return the settings and their origins by key."""
    settings, origins = resolve_settings(
        flags or {}, environ or {}, SettingsFile("genrm.toml", file or {})
    )
    return settings, {origin.key: origin for origin in origins}


def test_flag_before_environment_before_file_before_default():
    """A source overrides those after it, for every type, and the origin names it."""
    cases = [
        ("retries", "8", "16", 32, (8, 16, 32, 5)),
        (
            "concurrency",
            "8",
            "16",
            32,
            ("8", "16", "32", "auto"),
        ),
        (
            "price_in",
            "1.5",
            "2e1",
            30,
            (1.5, 20.0, 30.0, 0.0),
        ),
        (
            "call_timeout",
            "1.5",
            "2m",
            30,
            (1.5, 120.0, 30.0, 600.0),
        ),
        (
            "base_url",
            ["a", "b"],
            "c, d",
            ["e"],
            (("a", "b"), ("c", "d"), ("e",), ()),
        ),
        ("model", "a", "b", "c", ("a", "b", "c", None)),
        (
            "probe",
            True,
            "off",
            True,
            (True, False, True, True),
        ),
        (
            "strict",
            False,
            "yes",
            True,
            (False, True, True, False),
        ),
        (
            "strategy",
            "circular",
            "ring",
            "all_pairs",
            ("circular", "ring", "all_pairs", "ring"),
        ),
        (
            "unscored",
            "drop",
            "3.5",
            2.5,
            ("drop", "3.5", "2.5", "null"),
        ),
    ]
    for name, flag, environment, file, values in cases:
        variable = f"GENRM_{name.upper()}"
        sources = [
            "flag",
            f"environment {variable}",
            "file genrm.toml",
            "default",
        ]
        for first, (value, source) in enumerate(zip(values, sources, strict=True)):
            settings, origins = resolve(
                {name: flag} if first < 1 else {name: None},
                {variable: environment} if first < 2 else {},
                {name: file} if first < 3 else {},
            )
            assert value_of(settings, name) == value
            assert type(value_of(settings, name)) is type(value)
            assert origins[name].value == value
            assert origins[name].source == source


def test_compat_takes_pairs_and_estimator_of_the_reference_unless_they_are_given():
    """Numbers of NeMo Gym are one setting away; an explicit strategy or estimator overrides it."""
    settings, origins = resolve({"compat": "nemo-gym"})
    assert settings.pairing.strategy == "circular"
    assert settings.rewards.estimator == "simple_tiebreaker"
    assert {origins[name].source for name in ("strategy", "estimator")} == {"compat nemo-gym"}
    settings, _ = resolve(
        {"estimator": "adaptive"}, {"GENRM_COMPAT": "nemo-gym"}, {"strategy": "all_pairs"}
    )
    assert settings.pairing.strategy == "all_pairs"
    assert settings.rewards.estimator == "adaptive"


def test_a_preset_overrides_the_defaults_only():
    """A coefficient of `[shaping]` overrides the preset, wherever the preset was chosen."""
    for preset, coefficients in PRESETS.items():
        settings, _ = resolve({"preset": preset})
        assert settings.rewards.shaping == Shaping(**coefficients)
        settings, _ = resolve({"preset": preset}, file={"shaping": {LENGTH: 0.9}})
        assert settings.rewards.shaping == Shaping(**coefficients | {LENGTH: 0.9})


def test_json_has_its_public_name_everywhere():
    """Users write `json`, although the field has another name."""
    assert resolve(environ={"GENRM_JSON": "1"})[0].output.json_output
    assert resolve(file={"json": True})[0].output.json_output
    with pytest.raises(UsageError, match="json_output"):
        resolve(file={"json_output": True})


def test_a_bad_value_is_refused_from_every_source():
    """Flags, variables and files have the same checks, and the message names the place."""
    cases = [
        ("concurrency", "16385", "not auto or an integer from 1 to 16384"),
        ("retries", "101", "between 0 and 100"),
        ("price_in", "1e999", "not a finite number"),
        ("call_timeout", "9" * 400, "between 0.001 and 31622400"),
        ("deadline", "2 hours", "'2 hours' is not a duration, such as 90s, 15m or 2h"),
        ("ring_k", "-1", "between 0.1 and 10000"),
        ("probe", "maybe", "'maybe' is not true or false"),
        ("strategy", "circle", "not one of circular, all_pairs, ring. Did you mean circular"),
        ("unscored", "nan", "not null, drop, lowest or a finite number"),
    ]
    for name, raw, message in cases:
        variable = f"GENRM_{name.upper()}"
        for place, sources in (
            (name, {"flags": {name: raw}}),
            (variable, {"environ": {variable: raw}}),
            (f"genrm.toml: {name}", {"file": {name: raw}}),
        ):
            with pytest.raises(UsageError, match=message) as caught:
                resolve(**sources)
            assert str(caught.value).startswith(place)
            assert caught.value.exit_code == 2


def test_a_value_of_the_wrong_type_in_the_file_is_refused():
    """True is not a number, and a list or table is not text."""
    cases = [
        "retries",
        "concurrency",
        "call_timeout",
        "model",
        "base_url",
    ]
    for value in [True, [1], {"a": 1}, None]:
        for name in cases:
            with pytest.raises(UsageError, match=name):
                resolve(file={name: value})


def test_an_unknown_key_is_refused_with_a_suggestion():
    """A misspelt key is an error."""
    cases = [
        ("concurency", "Did you mean concurrency?"),
        ("call-timeouts", "call_timeout"),
        ("zzz", "genrm config"),
    ]
    for key, hint in cases:
        with pytest.raises(UsageError, match="unknown setting") as caught:
            resolve(file={key: 1})
        assert key in str(caught.value)
        assert hint in str(caught.value)


@given(st.sampled_from(all_settings()), st.text() | st.integers() | st.floats() | st.booleans())
def test_any_value_is_accepted_or_refused(setting, raw):
    """For any value in a file, the setting has its type and bounds, or there is one error."""
    try:
        settings, _ = resolve(file={"price_in": 1, setting.key: raw})
    except UsageError as error:
        assert setting.key in str(error)  # noqa: PT017
        return
    value = value_of(settings, setting.name)
    if setting.is_many:
        assert all(isinstance(text, str) and text for text in value)
        return
    assert type(value) is setting.type
    low = setting.low
    high = setting.high
    assert low is None or value >= low
    assert high is None or value <= high


def test_a_duration_is_seconds_or_has_a_unit():
    """A number is seconds; s, m, h and d are the units."""
    cases = [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("2h", 7_200),
        (" 1 d ", 86_400),
        (".5", 0.5),
        (30, 30),
        (0.25, 0.25),
    ]
    for text, seconds in cases:
        assert parse_duration_s(text) == seconds


def test_a_cost_limit_needs_prices():
    """Without a price the limit would never apply."""
    with pytest.raises(UsageError, match="max_cost has no effect without price_in or price_out"):
        resolve({"max_cost": "5"})
    assert resolve({"max_cost": "5", "price_out": "0.6"})[0].limits.max_cost == 5.0


ENDPOINT = {"base_url": "http://x/v1", "model": "m"}


def test_a_judge_overrides_an_endpoint_of_a_lower_source():
    """They exclude each other, so the source with the higher precedence wins; one source with both
    keeps both.
    """
    cases = [
        (
            {
                "flags": {"judge": "lexical"},
                "file": ENDPOINT,
            },
            "lexical",
            (),
        ),
        (
            {
                "environ": {"GENRM_JUDGE": "lexical"},
                "file": ENDPOINT,
            },
            "lexical",
            (),
        ),
        (
            {
                "flags": {"base_url": ["http://y/v1"]},
                "environ": {"GENRM_JUDGE": "lexical"},
            },
            None,
            ("http://y/v1",),
        ),
        (
            {
                "flags": {"base_url": ["http://y/v1"]},
                "file": {"judge": "lexical"},
            },
            None,
            ("http://y/v1",),
        ),
        ({"file": ENDPOINT | {"judge": "lexical"}}, "lexical", ("http://x/v1",)),
    ]
    for sources, judge, base_url in cases:
        settings, _ = resolve(**sources)
        assert settings.judge.judge == judge
        assert settings.judge.base_url == base_url


def test_a_principle_can_be_read_from_a_file(tmp_path):
    """`@FILE` is the text of the file without surrounding white space."""
    file = tmp_path / "principle.txt"
    file.write_text("Sicherheit zuerst – immer.\n\n", encoding="utf-8")
    settings, origins = resolve({"principle": f"@{file}"})
    assert settings.judge.principle == origins["principle"].value == "Sicherheit zuerst – immer."
    assert resolve({"principle": "a@b"})[0].judge.principle == "a@b"


def test_the_settings_file_of_the_folder_counts(tmp_path):
    """It is `genrm.toml`, if there is one."""
    assert read_settings_file(None, tmp_path) == SettingsFile()
    (tmp_path / "genrm.toml").write_text("repeats = 3\n")
    assert find_settings_file(tmp_path) == SettingsFile("genrm.toml", {"repeats": 3})


def test_a_broken_settings_file_is_a_usage_error(tmp_path):
    """A file that is missing, not TOML or not UTF-8 is named."""
    cases = [
        b"repeats = = 3",
        b"repeats = 3\nrepeats = 4",
        b"model = '\xff'",
        None,
    ]
    for content in cases:
        file = tmp_path / "genrm.toml"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(UsageError, match=r"genrm\.toml"):
            read_settings_file(str(file), tmp_path)


def test_a_state_folder_that_cannot_be_created_is_a_usage_error(tmp_path, monkeypatch):
    """The message says how to do without the folder."""
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="or set journal"):
        state_folder()


def test_without_a_home_folder_the_state_folder_is_a_usage_error(monkeypatch):
    """A container with an arbitrary user id has neither HOME nor an entry in the user database."""
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)
    with pytest.raises(UsageError, match=r"XDG_STATE_HOME.*journal"):
        state_folder()


def test_a_profile_beside_the_lexical_baseline_is_refused():
    """The baseline takes no prompt, so a profile of the same or a higher source would have no
    effect.
    """
    cases = [
        ({"judge": "lexical", "profile": "nemotron"}, {}),
        ({"profile": "json"}, {"GENRM_JUDGE": "lexical"}),
    ]
    for flags, environ in cases:
        with pytest.raises(UsageError, match="profile has no effect with judge='lexical'"):
            resolve_settings(flags, environ, SettingsFile())


def test_the_lexical_baseline_overrides_a_profile_of_the_settings_file():
    """A flag overrides the file, so that a file for a real judge needs no change."""
    settings, _ = resolve_settings(
        {"judge": "lexical"}, {}, SettingsFile("genrm.toml", {"profile": "json"})
    )
    assert settings.judge.judge == "lexical"
    assert settings.judge.profile is None
