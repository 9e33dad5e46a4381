"""The README says what the code does."""

import inspect
import re
from pathlib import Path

import pytest

from genrm_cli import errors
from genrm_cli.judging.lookup.builtin_profiles import PROFILES
from genrm_cli.rollouts.dialects import DIALECTS
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.resolve import read_settings_file, resolve_settings
from genrm_cli.settings.reward_settings import PRESETS
from genrm_cli.settings.table import all_settings
from genrm_cli.verdicts import FailureKind

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
OTHER_FLAGS = {
    "--reply",
    "--compare",
    "--help",
    "--config",
    "--prompt",
    "--as-judge",
    "--group",
    "--limit",
    "--history",
    "--fit",
    "--older-than",
    "--failures",
    "--tensor-parallel-size",
}


def _table_row(setting) -> str:
    names = [setting.flag, setting.declared.extra_flag, setting.declared.negative]
    default = setting.default
    if isinstance(default, bool):
        shown = "on" if default else "off"
    else:
        shown = "" if default in (None, ()) else f"`{default}`"
    flags = ", ".join(f"`{name}`" for name in names if name)
    return f"| {flags} | {shown} | {setting.declared.help} |"


def test_the_settings_table_holds_every_setting_as_it_is():
    """Each setting is in the README's table with its flags, its default and its help, in order."""
    rows = README.partition("| flag | default | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert rows.splitlines() == [_table_row(setting) for setting in all_settings()]


def test_the_readme_names_no_flag_that_does_not_exist():
    """Whatever the README calls a flag is one."""
    known = {s.flag for s in all_settings()} | {s.declared.negative for s in all_settings()} | OTHER_FLAGS
    known |= {s.declared.extra_flag for s in all_settings()}
    known |= {"--no-" + s.flag.removeprefix("--") for s in all_settings()}
    assert set(re.findall(r"--[a-z][a-z0-9-]+", README)) <= known


def test_the_exit_codes_are_those_of_the_errors():
    """Every error's exit code stands in the README's table."""
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.GenrmError)]
    codes = {cls.exit_code for cls in classes}
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert codes | {0, 130} == listed


def test_every_kind_dialect_profile_and_preset_is_explained():
    """The README names every kind of failure, every dialect, every profile and every preset."""
    assert [word for word in (*FailureKind, *DIALECTS, *PROFILES, *PRESETS) if f"`{word}`" not in README] == []


@pytest.mark.parametrize("begins", ["[components.win_rate]", "quorum = 2"])
def test_the_settings_files_of_the_readme_are_read(begins, tmp_path):
    """What the README shows of a settings file is one that is accepted as it stands."""
    (block,) = [block for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL) if block.startswith(begins)]
    (tmp_path / "genrm.toml").write_text(block)
    settings, _ = resolve_settings({}, {}, read_settings_file(None, tmp_path))
    assert len(settings.rewards.components) == 9 or len(judges_of(settings)) == 3
