"""`genrm formats`: list the input formats, or print an example line of one."""

import json
import shutil
import sys
from typing import Annotated

import typer

from genrm_cli.catalog import INPUT_FORMATS as EXPLANATIONS
from genrm_cli.cli.console import cut, print_json, print_text
from genrm_cli.cli.options import exits
from genrm_cli.errors import UsageError
from genrm_cli.settings.kinds import did_you_mean

_NOTES = (
    "Files contain one JSON object per line (.gz and .zst too), a JSON array, rows of Parquet or of a table (.csv, "
    ".tsv), or an inspect_ai log (.eval).",
    "Any other shape: --prompt-field question --response-field samples.text --id-field meta.id",
)

_INSTALLED = "registered by an installed package"


@exits
def formats(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print an example line of this format.")] = None,
) -> int:
    """List the input formats, each with an example line; with a name, print that line alone.

    genrm recognises the format of each line by its keys. --format sets one format for all lines.

    Example: genrm formats chat > example.jsonl
    """
    from genrm_cli.rollouts.formats import FORMATS
    from genrm_cli.scored.parse_lines import installed_formats

    known = {**FORMATS, **installed_formats()}
    if name is None:
        _print_all({each: json.dumps(format_.example) for each, format_ in known.items()})
    elif name in known:
        print_json(known[name].example)
    else:
        raise UsageError(f"unknown format {name!r}; `genrm formats` lists all formats.{did_you_mean(name, known)}")
    return 0


def _print_all(examples: dict[str, str]) -> None:
    """Print each name with its explanation, and the example below, cut to the width of a terminal."""
    widest, width = max(map(len, examples)), shutil.get_terminal_size().columns
    for name, example in examples.items():
        print_text(f"{name:<{widest}}  {EXPLANATIONS.get(name, _INSTALLED)}")
        line = f"  {example}"
        print_text(cut(line, width) if sys.stdout.isatty() else line)
    for note in _NOTES:
        print_text(f"\n{note}")
