import re

import pytest

from genrm_cli.cli.console import help_text
from genrm_cli.commands import read_commands
from genrm_cli.settings.table import all_settings

PLAIN = {"COLUMNS": "250", "NO_COLOR": "1", "TERM": "dumb"}


def test_help_of_the_whole_names_all_commands_and_exit_codes(genrm):
    """`genrm --help` exits with 0 and lists all commands and exit codes."""
    finished = genrm.run("--help", **PLAIN).ended(0)
    assert finished.err == ""
    text = finished.out.decode()
    assert [name for name in (*read_commands(), "Exit codes", "130") if name not in text] == []


def test_help_of_a_command_shows_every_option(call):
    """`--help-all` shows each setting with its meaning; other settings that it names are flags."""
    text = " ".join(call("config --help-all", **PLAIN).ended(0).out.decode().split())
    for setting in all_settings():
        flag = setting.negative if setting.default is True else setting.flag
        assert re.search(rf" {flag}[ ,]", text), setting.name
        assert help_text(setting.negative_help or setting.help)[:40] in text
    assert " --config " in text
    assert "$" not in text


def test_the_help_of_each_command_is_short(call):
    """At most 70 lines of 80 columns, of which only examples are longer; where there are many
    options, the common ones stand by task.
    """
    for command in read_commands():
        text = call(command, "--help", COLUMNS="80").out.decode()
        lines = text.splitlines()
        assert len(lines) <= 70, command
        assert [line for line in lines if len(line) > 80 and "Example: " not in line] == []
        assert "…" not in text
        assert command == "batch" or " --give-up-after " not in text
    text = call("score -h", COLUMNS="80").out.decode()
    assert text == call("score --help", COLUMNS="80").out.decode()
    sections = re.findall(r"^(\w[\w ]*):(\n.*?)(?=^\w|\Z)", text, re.M | re.S)
    options = {title: section.count("\n  -") for title, section in sections}
    assert [*options] == ["Arguments", "What to read", "What to ask", "What to write", "Options"]
    assert max(options.values()) <= 11


@pytest.mark.parametrize("usage", ["score [OPTIONS] ROLLOUTS...", "guide [OPTIONS] [PAGE]"])
def test_the_usage_names_the_arguments(call, usage):
    """Once, in brackets if they may be left out, with dots if there may be several."""
    text = call(usage.split()[0], "--help", **PLAIN).out.decode()
    assert text.startswith(f"Usage: genrm {usage}\n")


def test_every_setting_of_a_command_exists():
    """A setting that was renamed or deleted is not left behind in the table of commands."""
    known = {each.name for each in all_settings()}
    panels = {each.panel for each in all_settings()}
    for name, entry in read_commands().items():
        assert {*entry.names} <= known, name
        assert set(entry.panels) <= panels, name
