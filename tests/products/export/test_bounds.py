"""What is exactly at a bound of an export, and what a manifest leaves out of its shares."""

import json

import pytest
from genrm_process import read_lines
from scored_lines import scored, verdict, write_lines


@pytest.fixture
def folder(genrm):
    """Write two groups: one pair of equal lengths, one of a longer better answer; one bad line."""
    rows = [("aaa", 3.0), ("bbb", 1.0), ("cccccc", 5.0), ("dd", 2.0)]
    lines = [
        scored(text, reward, group=f"task:{number // 2}", index=number % 2)
        for number, (text, reward) in enumerate(rows)
    ]
    path = write_lines(genrm.folder / "in.scored.jsonl", [*lines, {"nothing": 1}])
    asked = [verdict(0, 1, 4, 2, group=f"task:{number}") for number in range(2)]
    write_lines(genrm.folder / "in.comparisons.jsonl", asked)
    return path.parent


def test_a_reward_at_the_bound_is_wanted_and_imitated(call, folder):
    """A threshold, or a least reward, of 3 takes the reward of 3."""
    call("export in.scored.jsonl --to trl-kto --threshold 3 -o kto.jsonl").ended(0)
    assert [row["label"] for row in read_lines(folder / "kto.jsonl")].count(True) == 2
    call("export in.scored.jsonl --to trl-sft --min-reward 3 -o sft.jsonl").ended(0)
    assert len(read_lines(folder / "sft.jsonl")) == 2


def test_the_manifest_counts_rollouts_and_pairs_of_unequal_lengths(call, folder):
    """A line that is no scored line is no rollout; a pair of equal lengths says nothing of them."""
    call("export in.scored.jsonl --to trl-dpo -o dpo.jsonl").ended(0)
    found = json.loads((folder / "dpo.manifest.json").read_bytes())
    assert (found["rollouts"], found["rejected_lines"], found["rows"]) == (4, 1, {"train": 2})
    assert found["longer_chosen_share"] == 1.0
