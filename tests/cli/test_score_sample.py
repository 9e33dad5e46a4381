import math
from collections import defaultdict

import pytest
from genrm_process import Finished, Genrm, Json

from genrm_cli.verdicts import Reason

OUTPUTS = ("scored.jsonl", "metrics.json", "comparisons.jsonl")
COMPARISON_KEYS = {
    "group",
    "i",
    "j",
    "judge_idx",
    "score_1",
    "score_2",
    "ranking",
    "failure",
    "attempts",
}
COMPARISON_KEYS |= {"latency_s", "prompt_tokens", "completion_tokens"}
DETAIL_KEYS = {
    "status",
    "base_score",
    "adjustments",
    "group",
    "group_size",
    "comparisons",
    "failed",
    "rank",
}
DETAIL_KEYS |= {"advantage", "previous_reward"}


class SampleRun:
    """What scoring the sample rollouts left behind."""

    def __init__(self, genrm: Genrm, finished: Finished) -> None:
        self.genrm = genrm
        self.finished = finished
        self.before = genrm.lines("rollouts.jsonl")
        self.after = genrm.lines("rollouts.scored.jsonl")
        self.comparisons = genrm.lines("rollouts.comparisons.jsonl")
        self.metrics: Json = genrm.json("rollouts.metrics.json")

    def groups(self) -> dict[str, list[Json]]:
        """Collect the scored lines by group, in the group's order."""
        found = defaultdict(list)
        for line in self.after:
            found[line["genrm"]["group"]].append(line)
        return {
            key: sorted(lines, key=lambda line: line["genrm"]["index"])
            for key, lines in found.items()
        }

    def compared(self) -> dict[str, list[Json]]:
        """Collect the groups without blank responses."""
        return {
            key: [line for line in lines if not is_blank(line)]
            for key, lines in self.groups().items()
        }


def is_blank(line):
    """Whether a sample has no text."""
    return bool(line["_ng_task_index"] == 5 and line["_ng_rollout_index"] == 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Score the sample rollouts once, with a term of every sort, for all tests that only look at
    the result.
    """
    genrm = Genrm(tmp_path_factory.mktemp("sample"))
    genrm.sample("rollouts.jsonl")
    return SampleRun(
        genrm,
        genrm.run("score rollouts.jsonl --judge lexical --preset nemotron-3-super"),
    )


def test_the_outputs_appear_beside_the_input_and_nothing_else(run):
    """A run ends with code 0, leaves its files beside its input, none empty or temporary, and an
    empty stdout.
    """
    assert run.finished.code == 0, run.finished.err
    assert run.genrm.names() == {"rollouts.jsonl", *(f"rollouts.{name}" for name in OUTPUTS)}
    assert run.finished.out == b""


def test_every_line_says_how_its_reward_came_about(run):
    """`genrm` holds what the issue lists, and base score and adjustments add up to the reward."""
    for line in run.after:
        detail = line["genrm"]
        assert detail.keys() >= DETAIL_KEYS
        assert detail["status"] == ("unscored" if is_blank(line) else "scored")
        if is_blank(line):
            assert line["reward"] is None
            assert detail["reason"] == Reason.BLANK
            continue
        assert math.isclose(
            line["reward"],
            detail["base_score"] + sum(detail["adjustments"].values()),
            rel_tol=1e-8,
        )


def test_the_embedded_judge_is_called_a_stand_in_everywhere(run):
    """The terminal, every line and the metrics say that no reward model judged."""
    assert "built-in lexical baseline" in run.finished.err
    assert run.metrics["judge"]["is_baseline"] is True
    assert all(
        line["genrm"]["is_baseline"] and line["genrm"]["judge"] == "lexical" for line in run.after
    )
