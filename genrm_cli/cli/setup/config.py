"""`genrm config`: the effective settings and their sources."""

import json
from typing import Annotated

import typer

from genrm_cli.cli.console import add_row, new_table, print_table, print_text
from genrm_cli.cli.options import ALL_PANELS, Invocation, with_settings
from genrm_cli.settings.kinds import Value


@with_settings(*ALL_PANELS)
def config(
    invocation: Invocation,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only settings that differ from their default.")
    ] = False,
) -> int:
    """Show the effective settings and their sources.

    Accepts the options of `genrm score` to show their effect. API keys are never shown.
    """
    origins = [origin for origin in invocation.origins if not changed or origin.source != "default"]
    if invocation.settings.output.json_output:
        print_text(json.dumps({o.key: {"value": o.value, "source": o.source} for o in origins}))
        return 0
    table = new_table("setting", "value", "source", texts=3)
    for origin in origins:
        add_row(
            table, origin.key, _shown(origin.value), origin.source, style="dim" if origin.source == "default" else ""
        )
    print_table(table)
    return 0


def _shown(value: Value) -> str:
    """Render a value as in a settings file, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else str(value)
