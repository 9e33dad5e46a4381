import json

from genrm_cli.catalog import INPUT_FORMATS


def test_the_list_holds_each_format_with_an_example(call):
    """In a pipe each format has a line with its explanation, and one that is its whole example."""
    lines = call("formats").out.decode().splitlines()
    for name, explanation in INPUT_FORMATS.items():
        [at] = [place for place, line in enumerate(lines) if line.split(maxsplit=1)[:1] == [name]]
        assert lines[at].endswith(f"  {explanation}")
        assert json.loads(lines[at + 1]) == json.loads(call("formats", name).out)
