"""Each setting that a command uses changes what the command does, or is refused; the others are no
options of it, and their variables and lines of a settings file are for other commands.
"""

import re

import pytest
from click import Context
from every_command import RUNS, TABLE, Bench

from genrm_cli.cli.console import help_text
from genrm_cli.cli.options import build_command
from genrm_cli.commands import read_commands
from genrm_cli.errors import UsageError
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import Settings, all_settings, setting_named, settings_from, value_of

SETTINGS = {setting.name: setting for setting in all_settings()}
VALUES = TABLE["values"]
# Only a client that is still waiting, or one that looks later, sees these of a server; they have
# tests of their own in tests/products/serve.
UNSEEN = {"serve": {"drain", "groups_per_step", "max_open_bytes"}}
NEEDED = {"response_field": "completion"}  # a value that other settings can stand beside


def uses(command):
    """Return the names of the settings that a command uses."""
    entry = read_commands()[command]
    return {
        name
        for name, setting in SETTINGS.items()
        if setting.panel in entry.panels or name in entry.names
    }


def beside(name):
    """Return what a setting needs to have an effect, as flat values."""
    given = {}
    for part in filter(None, SETTINGS[name].only_with.split(", ")):
        alternatives = part.split("|")
        chosen = "reference" if "reference" in alternatives else alternatives[0]
        other, _, value = chosen.partition("=")
        is_default = value and value == SETTINGS[other].default
        if not (other.startswith("!") or is_default):
            value = value.replace("...", "BUCKET/rl/journal/")
            given |= {**beside(other), other: value or NEEDED.get(other, VALUES[other])}
    given.pop("use_journal", None)
    return given


def resolved(flags, environ, file, command=None):
    """Resolve settings; a refusal is its message without the name of the source."""
    used = None if command is None else uses(command)
    try:
        return resolve_settings(flags, environ, SettingsFile("x.toml", file), used)[0]
    except UsageError as error:
        return re.sub(r".*? (?=has no effect|is out of|is not)", "", str(error), count=1)


@pytest.mark.parametrize("name", SETTINGS)
def test_all_sources_mean_the_same(name):
    """Flag, variable and line of a settings file give the same settings, and change them."""
    given = {**beside(name), name: VALUES[name]}
    by_flag = resolved(given, {}, {})
    by_variable = resolved({}, {setting_named(n).variable: v for n, v in given.items()}, {})
    by_file = resolved({}, {}, {setting_named(n).key: v for n, v in given.items()})
    assert by_flag == by_variable == by_file
    assert isinstance(by_flag, Settings)
    assert value_of(by_flag, name) != value_of(resolved(beside(name), {}, {}), name)


@pytest.mark.parametrize("command", read_commands())
def test_what_a_command_does_not_use_is_not_seen(command):
    """It is no option; its variable and its line in a settings file are for other commands."""
    built = build_command(command, read_commands()[command])
    options = {each.name: each.get_help_record(Context(built)) for each in built.params}
    for name in SETTINGS.keys() - uses(command):
        # It may have its own option of that name.
        assert help_text(SETTINGS[name].described) not in (options.get(name) or ("", ""))[1]
        variable = {SETTINGS[name].variable: VALUES[name]}
        line = {SETTINGS[name].key: VALUES[name]}
        assert resolved({}, variable, line, command) == settings_from()


def flags_of(name, value):
    """Return the flags that give a setting a value."""
    setting = SETTINGS[name]
    switches = {"true": [setting.flag], "false": [setting.negative]}
    return switches.get(value, [setting.flag, value])


@pytest.fixture
def bench(call, judge_server, s3_bucket, monkeypatch):
    """Give a test a bench on which each command has something to warn of."""
    for name in ("ANOTHER_KEY", "GENRM_MISSPELT"):
        monkeypatch.setenv(name, "k")
    return Bench(call, judge_server, s3_bucket)


def shows(bench, name, words, behaviour):
    """Return whether a setting changes what a run does, beside what it needs."""
    needs = [flag for other, value in beside(name).items() for flag in flags_of(other, value)]
    return bench.shows(words, behaviour, needs, flags_of(name, VALUES[name]))


@pytest.mark.weekly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", RUNS)
def test_each_setting_shows(command, bench):
    """In one of the runs of a command, each setting that it uses changes what the command prints,
    writes or asks, or is refused.
    """
    left = uses(command) - UNSEEN.get(command, set())
    for run in RUNS[command]:
        left = {name for name in sorted(left) if not shows(bench, name, *run)}
    assert not left, sorted(left)


def test_each_command_that_takes_settings_has_runs():
    """No command is left out."""
    assert {name for name in read_commands() if uses(name)} == RUNS.keys()


@pytest.mark.slow
def test_a_setting_shows_before_any_call(bench):
    """The bench sees a difference, and sees none where there is none."""
    run = ("validate two.jsonl --json --group-by prompt", {})
    assert shows(bench, "ring_k", *run)
    assert not shows(bench, "strict", *run)
