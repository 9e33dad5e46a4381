"""Trust before settings: a file that was only found in the working folder is refused until the user
trusts it.
"""

import contextlib

import pytest

from genrm_cli.errors import UsageError
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources import settings_file as trust
from genrm_cli.settings.sources.settings_file import (
    SettingsFile,
    find_settings_file,
    read_settings_file,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give a test a working folder, and a folder for the user's configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    return work


def resolve(folder, text, flags=None, environ=None):  # type: ignore[no-untyped-def]
    """Resolve the settings of a folder whose settings file holds this text."""
    (folder / "genrm.toml").write_text(text)
    with contextlib.chdir(folder):
        return resolve_settings(flags or {}, environ or {}, read_settings_file(None, folder))[0]


def test_a_file_of_the_folder_is_refused_until_it_is_trusted(folder):
    """The message names the file, its settings and both remedies; a trusted file is read."""
    text = "retries = 1\n[[judge]]\nmodel = 'a'\n"
    with pytest.raises(UsageError) as caught:
        resolve(folder, text)
    message = str(caught.value)
    assert message.startswith("genrm.toml is not trusted, and sets retries, judge.")
    assert "config='genrm.toml'" in message
    assert "genrm trust ." in message
    trust.trust(find_settings_file(folder), folder)
    assert resolve(folder, text).limits.retries == 1


def test_trust_ends_when_the_settings_change(folder):
    """A comment may change, a value may not; the error says that it did."""
    text = "base_url = 'http://mine/v1'\n"
    (folder / "genrm.toml").write_text(text)
    trust.trust(find_settings_file(folder), folder)
    assert resolve(folder, text + "# a comment\n").judge.base_url == ("http://mine/v1",)
    with pytest.raises(UsageError, match="has changed since you trusted it"):
        resolve(folder, text.replace("mine", "evil"))
    assert trust.distrust(folder)
    assert not trust.distrust(folder)
    with pytest.raises(UsageError, match="is not trusted"):
        resolve(folder, text)


def test_trust_is_that_of_one_folder(folder):
    """The same file in another folder is not trusted: the files that it names are others there."""
    text = "log_json = 'events.jsonl'\n"
    (folder / "genrm.toml").write_text(text)
    trust.trust(find_settings_file(folder), folder)
    other = folder.with_name("other")
    other.mkdir()
    with pytest.raises(UsageError, match="is not trusted"):
        resolve(other, text)


def test_the_list_is_the_users_alone(folder, tmp_path):
    """It has mode 0600 in a folder of mode 0700, and is refused if others can write it."""
    trust.trust(SettingsFile("genrm.toml", {"retries": 1}), folder)
    path = tmp_path / "config" / "genrm" / "trusted.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(trust.read_trusted()) == [str(folder / "genrm.toml")]
    path.chmod(0o622)
    with pytest.raises(UsageError, match="other users can write"):
        trust.read_trusted()


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"3"])
def test_a_damaged_list_is_a_usage_error(folder, tmp_path, content):
    """The message names the file; nothing is trusted meanwhile."""
    path = tmp_path / "config" / "genrm" / "trusted.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=r"trusted\.json"):
        resolve(folder, "base_url = 'http://mine/v1'")


def test_a_relative_configuration_folder_is_ignored(folder, monkeypatch):
    """A list in the working folder would come with the untrusted file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    monkeypatch.setenv("HOME", str(folder.parent / "home"))
    monkeypatch.chdir(folder)
    (folder / "config" / "genrm").mkdir(parents=True)
    (folder / "config" / "genrm" / "trusted.json").write_text("{")
    assert trust.read_trusted() == {}


def test_a_file_without_end_is_refused_at_once(tmp_path):
    """Nesting and integers have limits: no traceback."""
    cases = [
        "x = " + "[" * 100_000 + "]" * 100_000,
        "retries = " + "9" * 5_000,
        "retries = 0x" + "f" * 5_000,
    ]
    for text in cases:
        (tmp_path / "genrm.toml").write_text(text)
        with pytest.raises(UsageError, match="not a valid TOML file"):
            read_settings_file(None, tmp_path)
