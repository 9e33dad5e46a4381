"""What a run writes has the schema that the guide prints, and is read back as it was."""

import json

import pytest
from genrm_process import read_lines
from jsonschema import Draft202012Validator

from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.scored.write_lines import comparison_json
from genrm_cli.typed_json import from_json

COMPONENTS = """
[components.length]
kind = "field"
field = "info.q"
[total]
weights = { genrm = 1, length = 1 }
[diversity]
method = "ngram"
"""


@pytest.mark.parametrize("toml", ["", COMPONENTS], ids=["verdicts", "components"])
def test_the_outputs_of_a_run_have_the_schema_of_the_guide(genrm, call, toml):
    """Every scored line, comparison and metrics file validates, and so does what is read and
    written again.
    """
    rows = [
        {
            "prompt": "q",
            "completion": text,
            "info": {"q": 1},
        }
        for text in ("a", "b b", "a much longer c", "")
    ]
    genrm.write("in.jsonl", rows)
    (genrm.folder / "genrm.toml").write_text(toml, encoding="utf-8")
    options = ("--config", "genrm.toml", "--keep-replies", "--max-unscored", "1")
    call("score", "in.jsonl", "--judge", "lexical", *options).ended(0)
    schema = json.loads(call("guide", "schema").out)
    kinds = {
        name: Draft202012Validator({**schema, "$ref": f"#/$defs/{name}"})
        for name in schema["$defs"]
    }
    for line in read_lines(genrm.folder / "in.scored.jsonl"):
        kinds["ScoredLine"].validate(line["genrm"])
        assert list(line) == [*rows[0], "reward", "genrm"]
    for line in read_lines(genrm.folder / "in.comparisons.jsonl"):
        kinds["ComparisonRecord"].validate(line)
        again = comparison_json(from_json(ComparisonRecord, line), with_reply=True)
        assert json.loads(json.dumps(again)) == line
    metrics = json.loads((genrm.folder / "in.metrics.json").read_text(encoding="utf-8"))
    kinds["RunRecord"].validate(metrics)
    assert to_json(from_json(RunRecord, metrics)) == metrics
