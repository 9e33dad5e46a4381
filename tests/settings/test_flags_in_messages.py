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


def test_a_setting_is_a_flag_or_a_keyword():
    """The command line shows the flag, with its value; plain text reads as a keyword of the Python
    API.
    """
    cases = [
        (SettingRef("base_url"), "--base-url", "base_url"),
        (SettingRef("min_age", 0), "--min-age 0", "min_age=0"),
        (SettingRef("judge", "lexical"), "--judge lexical", "judge='lexical'"),
        (SettingRef("use_journal", False), "--no-journal", "use_journal=False"),
        (SettingRef("probe", False), "--no-probe", "probe=False"),
        (SettingRef("strict", True), "--strict", "strict=True"),
        (SettingRef("json_output"), "--json", "json_output"),
        (SettingRef("policy_base_url"), "--policy-base-url", "policy_base_url"),
        (SettingRef("sign_tests", False), "--no-sign-tests", "sign_tests=False"),
    ]
    for ref, flag, keyword in cases:
        assert render_flag(ref) == flag
        assert str(ref) == keyword


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
    assert message.parts == (
        SettingRef("shard"),
        " needs ",
        SettingRef("use_journal", value=False),
        ", $1 and ",
        SettingRef("min_age_s"),
        ".",
    )
    assert message.render(render_flag) == "--shard needs --no-journal, $1 and --min-age-s."


def sources():
    """Return the modules of the package, by their paths in it."""
    package = Path(genrm_cli.__file__).parent
    return {
        path.relative_to(package): path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
    }


def iter_named(tree):
    """Yield each setting that a message of a module names."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            continue
        first = node.args[0]
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            continue
        if node.func.id == "SettingRef":
            values = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
            off = any(isinstance(value, ast.Constant) and value.value is False for value in values)
            yield SettingRef(first.value, False if off else None)
        elif node.func.id == "naming":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            for ref in naming(first.value).parts:
                if isinstance(ref, SettingRef):
                    value = given.get(ref.name)
                    off = isinstance(value, ast.Constant) and value.value is False
                    yield SettingRef(ref.name, False if off else None)


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
    unknown = {
        f"{path.name}: {render_flag(ref)}"
        for path, source in sources().items()
        for ref in iter_named(ast.parse(source))
        if render_flag(ref) not in flags
    }
    assert unknown == set()


def test_help_names_settings_that_there_are():
    """`$name` in the help of a setting is a setting, or `--offline`."""
    named = {
        part.name
        for s in all_settings()
        for part in naming(s.help).parts
        if isinstance(part, SettingRef)
    }
    assert named <= {setting.name for setting in all_settings()} | {"offline"}


def iter_texts(tree):
    """Yield the string literals of a module that are not documentation."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
        ):
            yield node.value


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
        for flag in pattern.findall(text)
        if flag in flags
    }
    of_others = {
        "storage/encoding/eval_logs.py: --to",  # `inspect log convert`
        "products/batches/batch_api.py: --model",  # `vllm run-batch`
    }
    assert found == of_others
