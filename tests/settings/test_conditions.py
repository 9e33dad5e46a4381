"""A setting without effect is refused, wherever it comes from, and never makes outputs stale."""

import pytest

import genrm_cli as genrm
from genrm_cli.cli.console import help_text
from genrm_cli.errors import UsageError
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import (
    all_settings,
    changed,
    digest_of,
    setting_named,
    settings_from,
    value_of,
)

# A setting, its value, and the settings beside which it has no effect; None for none.
WITHOUT_EFFECT = [
    ("ring_k", "3", {"strategy": "all_pairs"}, "strategy"),
    ("seed", "7", {"strategy": "circular"}, "strategy"),
    ("list_size", "4", {}, "judging"),
    ("both_orders", "true", {"judging": "listwise"}, "judging"),
    ("temperature", "0.5", {"judge": "lexical"}, "judge"),
    ("profile", "json", {"judge": "lexical"}, "judge"),
    ("principle", "Be brief.", {"judge": "lexical"}, "judge"),
    ("image_hosts", "cdn.example.org", {}, "images"),
    ("view", "transcript", {"compat": "nemo-gym"}, "compat"),
    ("max_model_len", "9000", {"compat": "nemo-gym"}, "compat"),
    ("prompt_field", "q", {}, "response_field"),
    ("max_cost", "3", {}, "price_in"),
    ("shard", "0/2", {"conclude": "true"}, "conclude"),
    ("journal", "j.sqlite", {"use_journal": "false"}, "use_journal"),
    ("output_template", "{stem}.x", {"output": "o.jsonl"}, "output"),
    ("record_every", "9", {}, "record"),
    ("groups_per_step", "9", {}, "wandb"),
]
FOR_FILES = ("view", "prompt_field", "output_template", "record_every", "groups_per_step")


def variables(given):
    """Return settings as environment variables."""
    return {setting_named(name).variable: value for name, value in given.items()}


@pytest.mark.parametrize(("name", "value", "beside", "other"), WITHOUT_EFFECT)
def test_it_is_refused_from_every_source(name, value, beside, other):
    """By flag, variable, file and Python alike; the message names what is missing or in the way."""
    given = {**beside, name: value}
    says = rf"(?i){name}.* has no effect .*{other}"
    for flags, environ, file in (
        (given, {}, {}),
        ({}, variables(given), {}),
        ({}, {}, given),
    ):
        with pytest.raises(UsageError, match=says):
            resolve_settings(flags, environ, SettingsFile("genrm.toml", file))
    with pytest.raises(UsageError, match="no effect here" if name in FOR_FILES else says):
        genrm.Scorer(**given)


@pytest.mark.parametrize(("name", "value", "beside", "other"), WITHOUT_EFFECT)
def test_a_higher_source_drops_it(name, value, beside, other):
    """A file is shared by many runs: a flag that leaves one of its settings without effect wins."""
    if not beside:
        return
    settings, _ = resolve_settings(beside, {}, SettingsFile("genrm.toml", {name: value}))
    assert value_of(settings, name) == setting_named(name).default
    with pytest.raises(UsageError, match=f"{name}.* has no effect"):
        resolve_settings({name: value}, {}, SettingsFile("genrm.toml", beside))


def test_it_is_absent_from_the_digest():
    """Outputs are not made again for a setting that changes nothing."""
    alone = settings_from(strategy="all_pairs")
    assert digest_of(changed(alone, ring_k=3.0)) == digest_of(alone)
    assert digest_of(changed(Settings(), ring_k=3.0)) != digest_of(Settings())


def test_the_help_says_what_it_takes():
    """Each condition is a sentence of the help, and names settings or tables that exist."""
    assert help_text(setting_named("ring_k").described).endswith("Only with --strategy ring.")
    said = help_text(setting_named("temperature").described)
    assert said.endswith("Not with --judge, except with [components] or [diversity].")
    for setting in all_settings():
        for part in filter(None, setting.only_with.split(", ")):
            for each in part.split("|"):
                value_of(Settings(), each.removeprefix("!").partition("=")[0])
