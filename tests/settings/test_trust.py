"""Trust before settings: what a file that was only found in the working folder may set, and which
are trusted.
"""

import contextlib
from pathlib import Path

import pytest

import genrm_cli
from genrm_cli.errors import UsageError
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources import settings_file as trust
from genrm_cli.settings.sources.settings_file import SettingsFile, read_settings_file
from genrm_cli.settings.table import all_settings

NEEDS_TRUST = {
    "wandb",
    "mlflow",
    "tensorboard",
    "request_field",
    "base_url",
    "api_key_env",
    "api_key_file",
    "ca_bundle",
    "s3_endpoint_url",
    "s3_profile",
    "s3_region",
    "journal",
    "output",
    "output_template",
    "set_name",
    "force",
    "log_json",
    "any_prefix",
    "requests_to",
    "replies_from",
    "listen",
    "allow_public",
    "record",
    "reference",
}
BY_VALUE = {
    "principle": ("Be kind.", "@/etc/passwd"),
    "profile": ("nemotron", "own.toml"),
    "component": (["rubric:helpfulness"], ["rubric:own.toml"]),
}


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


def test_what_names_hosts_keys_and_files_needs_trust():
    """The settings that could leak, overwrite or run code are these and no others; a new one is
    asked about.
    """
    found = {s.name for s in all_settings() if s.trust is None and s.needs_trust(object())}
    assert found == NEEDS_TRUST
    assert {s.name for s in all_settings() if callable(s.trust)} == set(BY_VALUE)


def test_the_security_page_names_what_needs_trust():
    """A reader finds every such setting there."""
    page = (
        Path(genrm_cli.__file__)
        .with_name("guide")
        .joinpath("security.md")
        .read_text(encoding="utf-8")
    )
    assert [name for name in NEEDS_TRUST if f"`{name}`" not in page] == []


def test_text_and_booleans_that_declare_nothing_need_trust():
    """A new setting needs trust unless it is declared harmless."""
    for setting in all_settings():
        if setting.trust is None and not setting.choices:
            assert setting.needs_trust("another value") == (setting.type in (str, bool)), (
                setting.name
            )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("base_url = 'http://evil/v1'", "base_url"),
        ("api_key_env = 'AWS_SECRET_ACCESS_KEY'", "api_key_env"),
        ("api_key_file = '/etc/passwd'", "api_key_file"),
        ("principle = '@/etc/passwd'", "principle"),
        ("profile = 'own.toml'", "profile"),
        ("s3_endpoint_url = 'http://evil'", "s3_endpoint_url"),
        ("output = '/tmp/x'\nforce = true", "output, force"),
        ("force = 'yes'", "force"),
        ("component = ['rubric:own.toml']", "component"),
        ("[components.x]\npython = 'mine:f'", "python in [components.x]"),
        ("[components.q]\nkind = 'rubric'\nset = 'own.toml'", "set in [components.q]"),
        (
            "[components.q]\nkind = 'rubric'\nset = 'helpfulness'\nbase_url = 'http://evil/v1'",
            "base_url",
        ),
        (
            "[diversity]\nmethod = 'llm'\napi_key_env = 'AWS_SECRET_ACCESS_KEY'",
            "api_key_env in [diversity]",
        ),
        (
            "[[judge]]\nmodel = 'a'\n[[judge]]\nmodel = 'b'\nbase_url = 'http://evil/v1'",
            "base_url in [[judge]] 2",
        ),
        ("[[judge]]\nmodel = 'a'\nprofile = 'own.toml'", "profile in [[judge]] 1"),
    ],
)
def test_a_file_of_the_folder_may_not_leak_run_or_overwrite(folder, text, place):
    """It is refused with its name, the setting and both remedies; a file that is named, or trusted,
    is not.
    """
    with pytest.raises(UsageError) as caught:
        resolve(folder, text)
    message = str(caught.value)
    assert message.startswith("genrm.toml is not trusted, and sets ")
    assert place in message
    assert "config='genrm.toml'" in message
    assert "genrm trust ." in message
    file = read_settings_file(None, folder)
    trust.trust(file, folder)
    assert trust.state_of(file, folder) == "trusted"
    resolve(folder, text)


def test_what_is_harmless_needs_no_trust(folder):
    """Pairs, profiles by name, limits, components of the package: and a dangerous setting at its
    default.
    """
    settings = resolve(
        folder,
        "strategy = 'all_pairs'\nmodel = 'm'\nprinciple = 'Be kind.'\nretries = 2\n"
        "judge = 'lexical'\nforce = false\nredact_pattern = ['email']\n"
        "[components.guard]\n[components.q]\nkind = 'consistency'\nextract = 'boxed'\n"
        "[total]\nweights = { guard = 1 }\n",
    )
    resolve(folder, "estimator = 'adaptive'\n[[judge]]\nmodel = 'm'\nweight = 1\n")
    assert settings.pairing.strategy == "all_pairs"
    assert settings.judge.principle == "Be kind."


def test_what_is_overridden_needs_no_trust(folder):
    """A flag or variable takes the place of the file's endpoint, which is then not used."""
    cases = [
        ({"base_url": ["http://mine/v1"]}, {}),
        ({}, {"GENRM_BASE_URL": "http://mine/v1"}),
        ({"judge": "lexical"}, {}),
    ]
    for flags, environ in cases:
        settings = resolve(folder, "base_url = 'http://evil/v1'", flags, environ)
        assert "http://evil/v1" not in settings.judge.base_url


def test_trust_ends_when_the_settings_change(folder):
    """A comment may change, a value may not; the error says that it did."""
    resolve(folder, "retries = 1")
    text = "base_url = 'http://mine/v1'\n"
    (folder / "genrm.toml").write_text(text)
    trust.trust(read_settings_file(None, folder), folder)
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
    trust.trust(read_settings_file(None, folder), folder)
    other = folder.with_name("other")
    other.mkdir()
    with pytest.raises(UsageError, match="is not trusted"):
        resolve(other, text)


def test_the_list_is_the_users_alone(folder, tmp_path):
    """It has mode 0600 in a folder of mode 0700, and is refused if others can write it."""
    trust.trust(SettingsFile("genrm.toml", {"retries": 1}, is_named=False), folder)
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
