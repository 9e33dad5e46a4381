import json

from genrm_cli.catalog import INPUT_FORMATS


def test_every_printed_example_is_read_as_its_format(genrm, call):
    """The example lines of all formats, piped into one file, are recognised, each as its own
    format.
    """
    lines = [call("formats", name).out for name in INPUT_FORMATS]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    (genrm.folder / "examples.jsonl").write_bytes(b"".join(lines))
    report = json.loads(call("validate examples.jsonl --json").out)
    assert report["formats"] == dict.fromkeys(INPUT_FORMATS, 1)
    assert report["rejected_lines"] == 0


def test_the_list_holds_each_format_with_an_example(call):
    """In a pipe each format has a line with its explanation, and one that is its whole example."""
    lines = call("formats").out.decode().splitlines()
    for name, explanation in INPUT_FORMATS.items():
        [at] = [place for place, line in enumerate(lines) if line.split(maxsplit=1)[:1] == [name]]
        assert lines[at].endswith(f"  {explanation}")
        assert json.loads(lines[at + 1]) == json.loads(call("formats", name).out)
