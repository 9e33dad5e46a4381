"""Numbers that only their text holds exactly, in the lines of every format."""

import copy
import json

import pytest
from genrm_here import call_here
from genrm_process import PACKAGE_ROOT

LONG = 9223372036854775808


def variants_of(value):
    """Yield copies of a value, each with another number or text in it replaced."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            changes = variants_of(each)
        else:
            changes = (LONG, str(LONG))[: 1 if each is None else 2]
        for change in changes:
            changed = copy.copy(value)
            changed[key] = change
            yield changed


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_long_numbers_come_back_from_a_run_whatever_they_replace(tmp_path, step):
    """Each line that is read is written with its number as it was; the format that was recognised
    for reading is the one for writing.
    """
    lines = (PACKAGE_ROOT / "sample_data/writers.jsonl").read_bytes().splitlines()
    given = [json.dumps(each) for line in lines for each in variants_of(json.loads(line))][::step]
    (tmp_path / "in.jsonl").write_text("\n".join(given) + "\n")
    options = ("--offline", "-q", "--max-unscored", "1", "--no-strict")
    ended = call_here(["score", tmp_path / "in.jsonl", *options], {})
    assert ended.code == 0, ended.err
    scored = (tmp_path / "in.scored.jsonl").read_text().splitlines()
    assert len(scored) > len(given) / 2
    assert all(str(LONG) in line for line in scored)
