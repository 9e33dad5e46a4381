"""Read the verdicts of judges on many groups, from a comparisons file or from recorded verdicts."""

from collections import defaultdict

from bench.recorded import iter_recorded

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
    """Add recorded verdicts; the systems of a prompt are numbered in the order they appear."""
    systems: dict[str, dict[str, int]] = defaultdict(dict)
    for line in iter_recorded(path):
        numbers = systems[line.prompt]
        i, j = (numbers.setdefault(name, len(numbers)) for name in (line.first, line.second))
        if line.verdict is not None:
            group = judges[line.judge][line.prompt]
            group[Comparison(i, j, len(group))] = line.verdict
