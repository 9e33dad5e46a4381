"""`genrm formats`: list the input formats, or print an example line of one."""

import json
from importlib.resources import files

from genrm_cli.catalog import INPUT_FORMATS as EXPLANATIONS
from genrm_cli.cli.console import print_json
from genrm_cli.cli.options import argument
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import UsageError
from genrm_cli.settings.kinds import did_you_mean

_NOTES = (
    "Files contain one JSON object per line (.gz and .zst too), a JSON array, rows of Parquet or "
    "of a table (.csv, .tsv), or an inspect_ai log (.eval).",
    "Any other shape: --prompt-field question --response-field samples.text --id-field meta.id",
)


def formats(
    name: str | None = argument("NAME", "Print an example line of this format.", None),
) -> None:
    """List the input formats, each with an example line; with a name, print that line alone.

    genrm recognises the format of each line by its keys. --format sets one format for all lines.

    Example: genrm formats chat > example.jsonl
    """
    from genrm_cli.rollouts import formats as built_in
    from genrm_cli.scored.parse_lines import installed_formats

    examples = json.loads(files(built_in).joinpath("examples.json").read_bytes())
    examples |= {each: format_.example for each, format_ in installed_formats().items()}
    if name in examples:
        print_json(examples[name])
    elif name is not None:
        hint = did_you_mean(name, examples)
        raise UsageError(f"unknown format {name!r}; `genrm formats` lists all formats.{hint}")
    else:
        widest = max(map(len, examples))
        for each, example in examples.items():
            about = EXPLANATIONS.get(each, "registered by an installed package")
            print_parts(f"{each:<{widest}}  {about}", f"  {json.dumps(example)}")
        for note in _NOTES:
            print_parts("", note)
