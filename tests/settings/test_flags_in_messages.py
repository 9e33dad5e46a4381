"""Settings in messages, as each surface shows them."""

import ast
import pickle
import re
from pathlib import Path

import pytest
from typer.main import get_command

import genrm_cli
from genrm_cli.cli.app import app
from genrm_cli.errors import Message, SettingRef, UsageError, naming
from genrm_cli.settings.table import all_settings, render_flag


@pytest.mark.parametrize(
    ("ref", "flag", "keyword"),
    [
        (SettingRef("base_url"), "--base-url", "base_url"),
        (SettingRef("min_age", 0), "--min-age 0", "min_age=0"),
        (SettingRef("judge", "lexical"), "--judge lexical", "judge='lexical'"),
        (SettingRef("use_journal", False), "--no-journal", "use_journal=False"),
        (SettingRef("strict", True), "--strict", "strict=True"),
        (SettingRef("json_output"), "--json", "json_output"),
        (SettingRef("policy_base_url"), "--policy-base-url", "policy_base_url"),
        (SettingRef("sign_tests", False), "--no-sign-tests", "sign_tests=False"),
    ],
)
def test_a_setting_is_a_flag_or_a_keyword(ref, flag, keyword):
    """The command line shows the flag, with its value; plain text reads as a keyword of the Python
    API.
    """
    assert (render_flag(ref), str(ref)) == (flag, keyword)


def test_an_error_shows_its_settings_and_leaves_text_alone():
    """Only references to settings are rendered: what a server said keeps its flags and
    underscores.
    """
    said = "start with --seed 1 or min_age=3"
    error = UsageError(
        Message.of(SettingRef("min_age"), f": {said}; drop "), SettingRef("strict"), "."
    )
    assert str(error) == f"min_age: {said}; drop strict."
    assert error.message.render(render_flag) == f"--min-age: {said}; drop --strict."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_text_names_settings():
    """`$name` in a text of ours is a setting, with a value if one is given; other dollars are
    text.
    """
    message = naming("$shard needs $use_journal, $1 and $min_age_s.", use_journal=False)
    refs = [part for part in message.parts if isinstance(part, SettingRef)]
    assert refs == [SettingRef("shard"), SettingRef("use_journal", False), SettingRef("min_age_s")]
    assert message.render(render_flag) == "--shard needs --no-journal, $1 and --min-age-s."


def sources():
    """Return the modules of the package, by their paths in it."""
    package = Path(genrm_cli.__file__).parent
    return {
        path.relative_to(package): path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
    }


def is_off(node):
    """Return whether an argument is False."""
    return isinstance(node, ast.Constant) and node.value is False


def iter_named(tree):
    """Yield the flag of each setting that a message of a module names."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("SettingRef"), [ast.Constant(str(name)), *more], keywords):
                values = [*more, *(each.value for each in keywords)]
                yield render_flag(SettingRef(name, False if any(map(is_off, values)) else None))
            case ast.Call(ast.Name("naming"), [ast.Constant(str(text))], keywords):
                given = {each.arg: False for each in keywords if is_off(each.value)}
                parts = naming(text, **given).parts
                yield from (render_flag(part) for part in parts if isinstance(part, SettingRef))


def flags_of(command):
    """Return the flags of a command and of its subcommands."""
    own = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    return own.union(
        *(flags_of(command.get_command(None, name)) for name in getattr(command, "commands", ()))
    )


@pytest.mark.slow
def test_messages_name_what_there_is():
    """Each setting that a text names is the flag of a command."""
    flags = flags_of(get_command(app))
    named = {
        (path.name, flag)
        for path, text in sources().items()
        for flag in iter_named(ast.parse(text))
    }
    assert len(named) > 100
    assert {(name, flag) for name, flag in named if flag not in flags} == set()


def test_help_names_settings_that_there_are():
    """`$name` in the help of a setting is a setting, or `--offline`."""
    parts = [part for setting in all_settings() for part in naming(setting.help).parts]
    named = {part.name for part in parts if isinstance(part, SettingRef)}
    assert named <= {setting.name for setting in all_settings()} | {"offline"}


def iter_texts(tree):
    """Yield the string literals of a module that are not documentation."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)) if id(node) not in documentation:
                yield text


def test_only_the_command_line_knows_flags():
    """Texts of other modules name settings; flags of a trainer's own command are text like any
    other.
    """
    flags = flags_of(get_command(app))
    pattern = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    found = {
        f"{path}: {flag}"
        for path, source in sources().items()
        if path.parts[0] != "cli"
        and path.parts[:2] != ("adapters", "nemo_gym_sessions")  # it runs `genrm serve`
        and not flags.isdisjoint(pattern.findall(source))
        for text in iter_texts(ast.parse(source))
        for flag in flags.intersection(pattern.findall(text))
    }
    of_others = {
        "storage/encoding/eval_logs.py: --to",  # `inspect log convert`
        "products/batches/batch_api.py: --model",  # `vllm run-batch`
    }
    assert found == of_others
