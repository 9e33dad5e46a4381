"""`genrm config` and `genrm trust`: the effective settings, and the folders whose settings files
may set anything.
"""

from pathlib import Path

from genrm_cli.cli.console import print_json, print_text
from genrm_cli.cli.options import Invocation, argument
from genrm_cli.cli.tables import Table, names, print_parts, texts
from genrm_cli.errors import UsageError
from genrm_cli.settings.declare import setting
from genrm_cli.settings.kinds import Value


def config(
    invocation: Invocation,
    changed: bool = setting("Show only settings that differ from their default.", False),
) -> None:
    """Show the effective settings and their sources.

    Accepts the options of `genrm score` to show their effect. API keys are never shown.

    Example: genrm config --changed
    """
    origins = [origin for origin in invocation.origins if not changed or origin.source != "default"]
    if invocation.settings.output.json_output:
        print_json({o.key: {"value": o.value, "source": o.source} for o in origins})
        return
    table = Table([*names("setting"), *texts("value", "source")])
    for origin in origins:
        style = "dim" if origin.source == "default" else ""
        table.add(origin.key, _shown(origin.value), origin.source, style=style)
    print_parts(table)


def _shown(value: Value) -> str:
    """Render a value as in a settings file, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else str(value)


def trust(
    folder: Path = argument("FOLDER", "Folder with a settings file."),
    remove: bool = setting("Stop trusting the folder.", False),
) -> None:
    """Trust the settings file of a folder, so that it may name endpoints, keys, files and code.

    Trust ends when the settings change. Files that the settings name, such as Python modules, are
    not checked.

    Example: genrm trust .
    """
    from genrm_cli.settings.sources.settings_file import (
        distrust,
        find_settings_file,
        trust,
    )

    if remove:
        if not distrust(folder):
            raise UsageError(f"{folder.resolve()} is not trusted; there is nothing to remove.")
        print_text(f"{folder.resolve()} is no longer trusted")
        return
    file = find_settings_file(folder)
    if not file.path:
        raise UsageError(f"{folder}: no genrm.toml; `genrm init` writes one.")
    trust(file, folder)
    print_text(f"{folder.resolve() / file.path} is trusted and sets {', '.join(file.values)}")
