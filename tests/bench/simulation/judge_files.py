"""Read the verdicts of judges on many groups, from a comparisons file or from recorded verdicts."""

from collections import defaultdict
from pathlib import Path

import orjson

from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.encoding.records import parse_record
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import from_json
from genrm_cli.verdicts import Verdict

_Judges = dict[str, dict[str, dict[Comparison, Verdict]]]


def read_judges(path: str) -> dict[str, dict[str, Verdicts]]:
    """Return the verdicts of each judge by group; failures and grades are left out."""
    judges: _Judges = defaultdict(lambda: defaultdict(dict))
    if path.endswith(".comparisons.jsonl"):
        _add_comparisons(judges, path)
    else:
        _add_recorded(judges, path)
    return {judge: dict(groups) for judge, groups in judges.items()}


def _add_comparisons(judges: _Judges, path: str) -> None:
    with open_source(path, Store(), InputSettings()) as source:
        for line in source.iter_lines():
            record = from_json(ComparisonRecord, parse_record(line.raw))
            if record.is_pair and record.verdict is not None:
                group = judges[record.judge][str(record.group)]
                # Numbered anew: a file may repeat a comparison.
                group[Comparison(*record.indices, len(group))] = record.verdict


def _add_recorded(judges: _Judges, path: str) -> None:
    """Add verdicts that another program recorded: lines with `source`, `judge`, `prompt_id`, `i`,
    `j`, `score_1`, `score_2` and `ranking`; a failure has no scores. The systems of a prompt, `i`
    and `j`, are numbered in the order they appear.
    """
    systems: dict[str, dict[str, int]] = defaultdict(dict)
    with Path(path).open("rb") as lines:
        for line in map(orjson.loads, lines):
            prompt = f"{line['source']}/{line['prompt_id']}"
            numbers = systems[prompt]
            i, j = (numbers.setdefault(str(line[name]), len(numbers)) for name in "ij")
            scores = line["score_1"], line["score_2"], line["ranking"]
            if None not in scores:
                group = judges[f"{line['source']}/{line['judge']}"][prompt]
                group[Comparison(i, j, len(group))] = Verdict(*map(float, scores))
