import re

from genrm_cli.cli.console import help_text
from genrm_cli.commands import read_commands
from genrm_cli.settings.table import all_settings

PLAIN = {
    "COLUMNS": "250",
    "NO_COLOR": "1",
    "TERM": "dumb",
}


def test_help_of_the_whole_names_all_commands_and_exit_codes(genrm):
    """`genrm --help` exits with 0 and lists all commands and exit codes."""
    finished = genrm.run("--help", **PLAIN).ended(0)
    assert finished.err == ""
    text = finished.out.decode()
    for name in (
        "score",
        "compare",
        "eval",
        "validate",
        "config",
        "journal",
        "profiles",
        "Exit codes",
        "130",
    ):
        assert name in text


def test_help_of_a_command_shows_every_option(call):
    """`--help-all` shows each setting with its meaning; other settings that it names are flags."""
    finished = call("config --help-all", **PLAIN).ended(0)
    text = " ".join(finished.out.decode().split())
    for setting in all_settings():
        flag = setting.negative if setting.default is True else setting.flag
        assert re.search(rf" {flag}[ ,]", text), setting.name
        assert help_text(setting.negative_help or setting.help)[:40] in text
    assert " --config " in text
    assert "$" not in text


def test_help_shows_what_matters_within_80_columns(call):
    """`--help` and `-h` show the common settings only, and no line but an example is cut off or too
    long.
    """
    cases = [
        "score",
        "compare",
        "validate",
        "eval",
        "show",
        "config",
        "serve",
    ]
    for command in cases:
        finished = call(command, "--help", COLUMNS="80")
        assert call(command, "-h", COLUMNS="80").out == finished.out
        text = finished.out.decode()
        assert [
            line for line in text.splitlines() if len(line) > 80 and "Example: " not in line
        ] == []
        assert "…" not in text
        assert " --give-up-after " not in text


def test_the_help_of_each_command_is_short(call):
    """At most 70 lines of 80 columns; where there are many options, they stand by task."""
    for command in read_commands():
        lines = call(command, "--help", COLUMNS="80").out.decode().splitlines()
        assert len(lines) <= 70, command
    text = call("score --help", COLUMNS="80").out.decode()
    options = {
        title: section.count("\n  -")
        for title, section in re.findall(r"^(\w[\w ]*):(\n.*?)(?=^\w|\Z)", text, re.M | re.S)
    }
    assert [*options] == ["Arguments", "What to read", "What to ask", "What to write", "Options"]
    assert max(options.values()) <= 11


def test_an_option_that_does_not_exist_has_a_hint(call):
    """What other programs call it is translated; an option of another command is named as such."""
    cases = [
        ("serve --port 80", "use --listen HOST:PORT"),
        ("score x --workers 4", "use --concurrency"),
        ("score x --batch-size=4", "use --concurrency"),
        ("compare a --force", "genrm compare does not use it"),
        ("score x --bose-url u", "--base-url"),
    ]
    for line, hint in cases:
        assert hint in call(line).ended(2).err, line


def test_the_usage_names_the_arguments(call):
    """Once, in brackets if they may be left out, with dots if there may be several."""
    cases = [
        ("score", "ROLLOUTS..."),
        ("eval", "PAIRS"),
        ("guide", "[PAGE]"),
    ]
    for command, arguments in cases:
        assert (
            call(command, "--help", **PLAIN).out.decode().splitlines()[0]
            == f"Usage: genrm {command} [OPTIONS] {arguments}"
        )


UNUSED = {
    "validate": (
        "--deadline",
        "--max-calls",
        "--retries",
        "--no-probe",
        "--force",
        "--dry-run",
    ),
    "collect": (
        "--listen",
        "--format",
        "--cohort-deadline",
        "--min-age",
    ),
    "eval": (
        "--format",
        "--response-field",
        "--together",
        "--shard",
        "--min-age",
    ),
    "show": (
        "--no-probe",
        "--conclude",
        "--force",
        "--api-key-env",
    ),
    "export": ("--base-url", "--group-by", "--deadline"),
    "report": ("--shard", "--group-by", "--temperature"),
    "compare": ("--max-calls", "--output"),
}


def test_every_setting_of_a_command_exists():
    """A setting that was renamed or deleted is not left behind in the table of commands."""
    known = {each.name for each in all_settings()}
    panels = {each.panel for each in all_settings()}
    for name, entry in read_commands().items():
        assert {*entry.names} <= known, name
        assert set(entry.panels) <= panels, name


def test_no_help_shows_an_option_that_its_command_ignores(call):
    """A command that calls no judge has no retries, and one that reads pairs has no fields of
    rollouts.
    """
    for command in UNUSED:
        text = call(command, "--help-all", COLUMNS="250").out.decode()
        shown = set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE))
        assert shown.isdisjoint(UNUSED[command])


def test_what_there_is_not_ends_with_2(call):
    """An unknown option or command, a missing or a second argument is a usage error."""
    cases = [
        ("--colour",),
        ("scroe", "in.jsonl"),
        ("score",),
        ("compare",),
    ]
    for arguments in cases:
        finished = call(*arguments).ended(2)
        assert finished.out == b""
        assert "Usage" in finished.err
