"""JSON Schema of what a run writes, generated from the dataclasses that write and read it."""

from genrm_cli.json_types import Record
from genrm_cli.scored.json_form import json_schema
from genrm_cli.scored.lines import ComparisonRecord, ScoredLine
from genrm_cli.scored.run_record import RunRecord


def output_schema() -> Record:
    """Return the schemas: `ScoredLine` of a rollout's `genrm` object, `ComparisonRecord` and `RunRecord` of files."""
    line = json_schema(ScoredLine)
    del line["properties"]["reward"]  # it stands in the line itself, where the format of the line has its reward
    line["required"].remove("reward")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "ScoredLine": line,
            "ComparisonRecord": json_schema(ComparisonRecord),
            "RunRecord": json_schema(RunRecord),
        },
    }
