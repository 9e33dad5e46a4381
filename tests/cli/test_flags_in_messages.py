"""Settings in messages, as each surface shows them."""

import pickle

import pytest

from genrm_cli.cli.console import render_flag
from genrm_cli.errors import Message, SettingRef, UsageError, naming


@pytest.mark.parametrize(
    ("ref", "flag", "keyword"),
    [
        (SettingRef("base_url"), "--base-url", "base_url"),
        (SettingRef("min_age", 0), "--min-age 0", "min_age=0"),
        (SettingRef("judge", "lexical"), "--judge lexical", "judge='lexical'"),
        (SettingRef("use_journal", False), "--no-journal", "use_journal=False"),
        (SettingRef("probe", False), "--no-probe", "probe=False"),
        (SettingRef("strict", True), "--strict", "strict=True"),
        (SettingRef("json_output"), "--json", "json_output"),
        (SettingRef("policy_base_url"), "--policy-base-url", "policy_base_url"),
        (SettingRef("sign_tests", False), "--no-sign-tests", "sign_tests=False"),
    ],
)
def test_a_setting_is_a_flag_or_a_keyword(ref: SettingRef, flag: str, keyword: str) -> None:
    """The command line shows the flag, with its value; plain text reads as a keyword of the Python API."""
    assert render_flag(ref) == flag
    assert str(ref) == keyword


def test_an_error_shows_its_settings_and_leaves_text_alone() -> None:
    """Only references to settings are rendered: what a server said keeps its flags and underscores."""
    said = "start with --seed 1 or min_age=3"
    error = UsageError(Message.of(SettingRef("min_age"), f": {said}; drop "), SettingRef("strict"), ".")
    assert str(error) == f"min_age: {said}; drop strict."
    assert error.message.render(render_flag) == f"--min-age: {said}; drop --strict."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_text_names_settings() -> None:
    """`$name` in a text of ours is a setting, with a value if one is given; other dollars are text."""
    message = naming("$shard needs $use_journal, $1 and $min_age_s.", use_journal=False)
    assert message.parts == (
        *(SettingRef("shard"), " needs ", SettingRef("use_journal", value=False), ", $1 and "),
        *(SettingRef("min_age_s"), "."),
    )
    assert message.render(render_flag) == "--shard needs --no-journal, $1 and --min-age-s."
