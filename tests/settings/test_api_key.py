"""Lookup of the judge's API key, which is never shown."""

import pytest

from genrm_cli.errors import UsageError
from genrm_cli.settings.sources.keys import find_api_key
from genrm_cli.settings.table import all_settings, settings_from


def find(environ, name=None):
    """Look up a key."""
    return find_api_key(settings_from(api_key_env=name).judge, environ)


def test_the_key_comes_from_its_own_variable_first():
    """GENRM_API_KEY, then OPENAI_API_KEY, then none; an empty variable counts as unset."""
    both = {"GENRM_API_KEY": "one", "OPENAI_API_KEY": "two"}
    assert find(both) == "one"
    assert find(both | {"GENRM_API_KEY": " "}) == "two"
    assert find({}) is None


def test_a_named_variable_replaces_both():
    """`--api-key-env` reads that variable only, without a trailing line break."""
    assert find({"GENRM_API_KEY": "one", "MY_KEY": "three\n"}, "MY_KEY") == "three"
    with pytest.raises(UsageError, match="names MY_KEY, which is not set"):
        find({"GENRM_API_KEY": "one"}, "MY_KEY")


def test_a_key_that_cannot_be_sent_is_refused_unseen():
    """A key with characters that no key has is refused, and the message does not show it."""
    cases = [
        "sk-secret\nX: y",
        "sk-secret\x00",
        "„sk-secret“",
        "sk-secret\u200b",
        "sk\tsecret",
    ]
    for key in cases:
        with pytest.raises(
            UsageError, match=r"key in GENRM_API_KEY .* contains characters"
        ) as caught:
            find({"GENRM_API_KEY": key})
        assert "secret" not in str(caught.value)


def test_a_key_given_as_the_name_is_not_shown():
    """A key given to `--api-key-env` in place of a name is refused without being shown."""
    for key in ["sk-proj-secret", "hf_secretSECRET", "nvapi-secret"]:
        with pytest.raises(UsageError, match="never the key") as caught:
            find({}, key)
        assert key not in str(caught.value)


def test_no_setting_holds_the_key():
    """The key is not a setting, so it cannot be in a file, a flag, the digest or a list of
    settings.
    """
    names = {setting.key for setting in all_settings()}
    assert {name for name in names if "key" in name} == {"api_key_env"}  # where it is, not what
    assert all(s.default is None for s in all_settings() if "key" in s.name)
