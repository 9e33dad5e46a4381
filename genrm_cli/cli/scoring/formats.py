"""`genrm formats`: list the input formats, or print an example line of one."""

import json
import sys
from typing import Annotated

import typer
from rich.text import Text

from genrm_cli.catalog import DIALECTS as EXPLANATIONS
from genrm_cli.cli.console import print_json, stdout_console
from genrm_cli.cli.options import exits
from genrm_cli.errors import UsageError
from genrm_cli.settings.convert import did_you_mean

_NOTES = (
    "Files hold one JSON object a line (.gz and .zst too), a JSON array, Parquet rows, or an inspect_ai log (.eval).",
    "Any other shape: --prompt-field question --response-field samples.text --id-field meta.id",
)


@exits
def formats(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print an example line of this format.")] = None,
) -> int:
    """List the input formats, each with an example line; with a name, print that line alone.

    Each line of a file is recognised by its keys. --format reads all lines of a file in one format.

    Example: genrm formats chat > example.jsonl
    """
    from genrm_cli.rollouts.dialects import DIALECTS

    if name is None:
        _print_all({known: json.dumps(dialect.example) for known, dialect in DIALECTS.items()})
    elif (dialect := DIALECTS.get(name.replace("-", "_"))) is not None:
        print_json(dialect.example)
    else:
        raise UsageError(f"there is no format {name!r}; `genrm formats` lists all.{did_you_mean(name, DIALECTS)}")
    return 0


def _print_all(examples: dict[str, str]) -> None:
    """Print each name with its explanation, the example below; on a terminal cut to its width."""
    console, cut = stdout_console(), sys.stdout.isatty()
    widest = max(map(len, examples))
    for name, example in examples.items():
        line = Text(f"  {example}", style="dim")
        if cut:
            line.truncate(console.width, overflow="ellipsis")
        console.print(Text.assemble((f"{name:<{widest}}", "bold"), f"  {EXPLANATIONS[name]}"), soft_wrap=True)
        console.print(line, soft_wrap=True)
    for note in _NOTES:
        console.print()
        console.print(Text(note), soft_wrap=not cut)
