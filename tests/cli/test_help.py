import re

import pytest
from genrm_process import Call, Genrm

from genrm_cli import __version__
from genrm_cli.settings.table import all_settings

PLAIN = {"COLUMNS": "250", "NO_COLOR": "1", "TERM": "dumb"}
LEFT_OUT = {
    "score": (),
    "config": (),
    "compare": (
        "output",
        "output_template",
        "force",
        "dry_run",
        "keep_replies",
        "unscored",
        "parallel_files",
        "budget",
        "limit",
        "min_reliability",
        "only_components",
        "deadline",
        "max_calls",
        "only_components",
        "max_total_tokens",
        "max_cost",
        "price_in",
        "price_out",
    ),
    "validate": (
        "min_age",
        "parallel_files",
        "segment_calls",
        "segment_age",
        "force",
        "dry_run",
        "keep_replies",
        "leases",
        "lease_expiry",
        "lock",
    ),
    "eval": (
        "format",
        "limit",
        "group_by",
        "min_age",
        "compat",
        "parallel_files",
        "output_template",
        "dry_run",
        "keep_replies",
        "leases",
        "lease_expiry",
        "lock",
    ),
    "serve": (
        *("format", "group_by", "prompt_field", "response_field", "id_field", "max_line_bytes", "max_unpacked"),
        *("strict", "min_age", "require_metadata", "leases", "lease_expiry", "lock", "output", "output_template"),
        *("force", "dry_run", "unscored", "max_unscored", "parallel_files", "deadline", "budget"),
        *("only_components", "only_failed", "json_output", "limit", "segment_calls", "segment_age"),
    ),
}
# Settings whose flag means something else in a command.
OTHER_MEANING = {("eval", "output")}
# Panels that a command has no use for.
PANELS_LEFT_OUT = {
    "score": ("Server",),
    "config": (),
    "compare": ("Input", "Journal", "Storage", "Tracking", "Server"),
    "validate": ("Rewards", "Tracking", "Server"),
    "eval": ("Pairs", "Rewards", "Tracking", "Server"),
    "serve": ("Tracking",),
}


def test_help_of_the_whole_names_all_commands_and_exit_codes(genrm: Genrm) -> None:
    """`genrm --help` exits with 0 and lists all commands and exit codes."""
    finished = genrm.run("--help", **PLAIN)
    assert (finished.code, finished.err) == (0, "")
    text = finished.out.decode()
    for name in ("score", "compare", "eval", "validate", "config", "journal", "profiles", "Exit codes", "130"):
        assert name in text


@pytest.mark.parametrize("command", LEFT_OUT)
def test_help_of_a_command_shows_every_option(call: Call, command: str) -> None:
    """`--help-all` shows each setting of the command with its meaning."""
    finished = call(command, "--help-all", **PLAIN)
    assert finished.code == 0
    text = " ".join(finished.out.decode().split())
    for setting in all_settings():
        flag = (
            setting.declared.negative or setting.flag.replace("--", "--no-")
            if setting.default is True
            else setting.flag
        )
        shown = re.search(rf" {flag}[ ,]", text) is not None
        left_out = setting.declared.panel in PANELS_LEFT_OUT[command] or setting.name in LEFT_OUT[command]
        assert shown != left_out, setting.name
        if shown and (command, setting.name) not in OTHER_MEANING:
            assert (setting.declared.negative_help or setting.declared.help)[:40] in text
    assert " --config " in text


@pytest.mark.parametrize("command", ["score", "compare", "validate", "eval", "show", "config", "serve"])
def test_help_shows_what_matters_within_80_columns(call: Call, command: str) -> None:
    """`--help` and `-h` show the common settings only, and no line but an example is cut off or too long."""
    finished = call(command, "--help", COLUMNS="80")
    assert call(command, "-h", COLUMNS="80").out == finished.out
    text = finished.out.decode()
    assert [line for line in text.splitlines() if len(line) > 80 and "Example: " not in line] == []
    assert "…" not in text
    assert " --connect-timeout " not in text


@pytest.mark.parametrize(("command", "arguments"), [("score", "ROLLOUTS..."), ("eval", "[PAIRS]"), ("guide", "[PAGE]")])
def test_the_usage_names_the_arguments(call: Call, command: str, arguments: str) -> None:
    """Once, in brackets if they may be left out, with dots if there may be several."""
    assert (
        call(command, "--help", **PLAIN).out.decode().splitlines()[0] == f"Usage: genrm {command} [OPTIONS] {arguments}"
    )


def test_the_help_of_score_shows_about_15_settings() -> None:
    """A first-time reader sees only what matters."""
    shown = [each for each in all_settings() if each.declared.is_common and each.declared.panel != "Server"]
    assert len(shown) in range(13, 18)


@pytest.mark.parametrize("arguments", [("--colour",), ("scroe", "in.jsonl"), ("score",), ("compare",)])
def test_what_there_is_not_ends_with_2(call: Call, arguments: tuple[str, ...]) -> None:
    """An unknown option or command, a missing or a second argument is a usage error."""
    finished = call(*arguments)
    assert finished.code == 2
    assert finished.out == b""
    assert "Usage" in finished.err


def test_the_version(genrm: Genrm) -> None:
    """`genrm --version` prints name and version."""
    assert genrm.run("--version").out.decode() == f"genrm {__version__}\n"
