"""`genrm config` and `genrm trust`: the effective settings, and the folders whose settings files
may set anything.
"""

import json
from pathlib import Path
from typing import Annotated

from genrm_cli.cli.console import print_text
from genrm_cli.cli.options import Invocation, argument, switch, with_settings
from genrm_cli.cli.tables import Table, names, print_parts, texts
from genrm_cli.errors import UsageError
from genrm_cli.settings.kinds import Value


@with_settings
def config(
    invocation: Invocation,
    changed: Annotated[
        bool, switch("--changed", "Show only settings that differ from their default.")
    ] = False,
) -> int:
    """Show the effective settings and their sources.

    Accepts the options of `genrm score` to show their effect. API keys are never shown.

    Example: genrm config --changed
    """
    origins = [origin for origin in invocation.origins if not changed or origin.source != "default"]
    if invocation.settings.output.json_output:
        shown = {o.key: {"value": o.value, "source": o.source} for o in origins}
        print_text(json.dumps(shown))
        return 0
    table = Table([*names("setting"), *texts("value", "source")])
    for origin in origins:
        style = "dim" if origin.source == "default" else ""
        table.add(origin.key, _shown(origin.value), origin.source, style=style)
    print_parts(table)
    return 0


def _shown(value: Value) -> str:
    """Render a value as in a settings file, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else str(value)


@with_settings
def trust(
    folder: Annotated[Path, argument("FOLDER", "Folder with a settings file.")],
    remove: Annotated[bool, switch("--remove", "Stop trusting the folder.")] = False,
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
            raise UsageError(f"{folder.resolve()} is not trusted.")
        print_text(f"{folder.resolve()} is no longer trusted")
        return
    file = find_settings_file(folder)
    if not file.path:
        raise UsageError(f"{folder}: no settings; expected genrm.toml.")
    trust(file, folder)
    print_text(f"{folder.resolve() / file.path} is trusted and sets {', '.join(file.values)}")
