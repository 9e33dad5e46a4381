"""Equal texts are one rollout: compared once, with one reward from verdicts, and counted."""

import pytest
from scored_components import LEXICAL, completions, judge, score, settings_of

from genrm_cli.catalog import ESTIMATORS, STRATEGIES
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.previews.preview import iter_dry_run
from genrm_cli.pairing.pairs import PairingPlan

TEXTS = (
    "Paris.",
    "It is Paris, of course.",
    "Paris.",
    "Lyon, I think, or Paris.",
    "Paris.",
)


def test_equal_texts_share_comparisons_and_reward(tmp_path):
    """No comparison shows a text beside itself; there are as many as for the different texts; lines
    name the first.
    """
    for strategy in STRATEGIES:
        scored = score(tmp_path, completions(*TEXTS), LEXICAL, strategy=strategy)
        assert scored.rewards[0] == scored.rewards[2] == scored.rewards[4] != scored.rewards[1]
        assert {each["i"] for each in scored.comparisons} | {
            each["j"] for each in scored.comparisons
        } == {0, 1, 3}
        assert len(scored.comparisons) == PairingPlan(strategy).count(3)
        run = new_run(settings_of(LEXICAL, strategy=strategy), {})
        ((_, preview),) = iter_dry_run([str(tmp_path / "in.jsonl")], run)
        assert preview is not None
        assert (
            preview.plan.planned == scored.metrics["comparisons_planned"] == len(scored.comparisons)
        )
        assert [line["genrm"].get("equal_to") for line in scored.lines] == [None, None, 0, None, 0]
        assert scored.metrics["copies"] == 2
        advantages = [line["genrm"]["advantage"] for line in scored.lines]
        assert sum(advantages) == pytest.approx(0)  # the mean is over copies, too


def test_reasoning_of_a_copy_counts_for_itself(tmp_path):
    """Judges do not see it, so it makes no difference to them; a length term does."""
    thoughts = [
        f"<think>{'Hm. ' * length}</think>{text}"
        for length, text in ((9, "4"), (1, "4"), (4, "It is four."))
    ]
    toml = f"{LEXICAL}[shaping]\ngroup_reasoning_length_penalty_coeff = 0.5"
    scored = score(tmp_path, completions(*thoughts), toml)
    bases = [line["genrm"]["base_score"] for line in scored.lines]
    assert bases[0] == bases[1]
    assert scored.lines[1]["reward"] > scored.lines[0]["reward"]
    assert len(scored.comparisons) == 2


def test_a_group_of_equal_texts_asks_nothing_and_gets_the_middle_score(tmp_path):
    """There is nothing to learn from it, and nothing failed."""
    for estimator in ESTIMATORS:
        scored = score(tmp_path, completions("4", "4", "4"), LEXICAL, estimator=estimator)
        assert scored.rewards == [3.0] * 3
        assert [line["genrm"]["advantage"] for line in scored.lines] == [0.0] * 3
        assert scored.comparisons == []
        assert scored.code == 0
        toml = f"{LEXICAL}[components.win_rate]\n[total]\nweights = {{ win_rate = 1, genrm = 1 }}\n"
        assert (
            score(tmp_path, completions("4", "4", "4"), toml, estimator=estimator).rewards
            == [3.0] * 3
        )


def test_blank_responses_lose_to_the_only_response_with_text(tmp_path):
    """Also to one of which there are copies; without the setting, there is no reward."""
    lines = completions("4", "", None, "4", "  ")
    assert score(tmp_path, lines, LEXICAL, empty="lose").rewards == [3.0, 1.0, None, 3.0, 1.0]
    assert score(tmp_path, completions("4", ""), LEXICAL, empty="lose").rewards == [3.0, 1.0]
    assert score(tmp_path, completions("4", ""), LEXICAL).rewards == [None, None]


def test_compat_compares_equal_texts(tmp_path):
    """As NeMo Gym does."""
    scored = score(tmp_path, completions("4", "4", "4"), LEXICAL, compat="nemo-gym")
    assert len(scored.comparisons) == 3
    assert scored.metrics["copies"] == 0


def test_copies_are_graded_once_and_count_in_clusters(tmp_path, judge_server):
    """Copying a response must not pay: it divides its reward, and a rubric asks about it once."""
    toml = judge(judge_server) + (
        "[components.care]\nkind = 'rubric'\nset = 'therapeutic'\n"
        "[diversity]\n[total]\nweights = { rubric_safety = 1, genrm = 1 }\n"
    )
    scored = score(tmp_path, completions(*TEXTS), toml)
    assert sum(each.get("component") == "care" for each in scored.comparisons) == 3
    assert len(set(scored.component("rubric_safety")[::2])) == 1
    assert [line["genrm"]["diversity"]["size"] for line in scored.lines[::2]] == [3, 3, 3]
