"""What a run writes has the schema that the guide prints, and is read back as it was."""

import json

import pytest
from genrm_process import Call, Genrm, read_lines
from jsonschema import Draft202012Validator

from genrm_cli.scored.json_form import FormError, from_json, to_json
from genrm_cli.scored.lines import ComparisonRecord
from genrm_cli.scored.run_record import RunRecord

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
def test_the_outputs_of_a_run_have_the_schema_of_the_guide(
    genrm: Genrm, call: Call, toml: str
) -> None:
    """Every scored line, comparison and metrics file validates, and so does what is read and
    written again.
    """
    rows = [
        {"prompt": "q", "completion": text, "info": {"q": 1}}
        for text in ("a", "b b", "a much longer c", "")
    ]
    genrm.write("in.jsonl", rows)
    (genrm.folder / "genrm.toml").write_text(toml, encoding="utf-8")
    call("score", "in.jsonl", "--judge", "lexical", "--keep-replies", "--max-unscored", "1").ended(
        0
    )
    schema = json.loads(call("guide", "schema").out)
    kinds = {
        name: Draft202012Validator({**schema, "$ref": f"#/$defs/{name}"})
        for name in schema["$defs"]
    }
    for line in read_lines(genrm.folder / "in.scored.jsonl"):
        kinds["ScoredLine"].validate(line["genrm"])
    for line in read_lines(genrm.folder / "in.comparisons.jsonl"):
        kinds["ComparisonRecord"].validate(line)
        assert to_json(from_json(ComparisonRecord, line)) == {
            k: v for k, v in line.items() if k != "reply" or v
        }
    metrics = json.loads((genrm.folder / "in.metrics.json").read_text(encoding="utf-8"))
    kinds["RunRecord"].validate(metrics)
    assert to_json(from_json(RunRecord, metrics)) == metrics


def test_another_form_is_refused_with_the_key_that_is_wrong() -> None:
    """The message names the key, what was found and what was expected."""
    with pytest.raises(FormError, match="format is missing"):
        from_json(ComparisonRecord, {})
    with pytest.raises(
        FormError, match=r"failure: kind: found 'late'; expected one of connection, "
    ):
        from_json(
            ComparisonRecord,
            {"format": 1, "group": "g", "i": 0, "j": 1, "judge_idx": 0, "judge": "j"} | FAILED,
        )


FAILED = {
    "score_1": None,
    "score_2": None,
    "ranking": None,
    "failure": {"kind": "late", "detail": ""},
}
