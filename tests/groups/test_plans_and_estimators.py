"""Rings, budgets and estimators, from the settings to the output."""

import pytest
from genrm_process import make_rollouts
from scored_components import score_with

import genrm_cli as genrm
from genrm_cli.cli.options import run_to_end
from genrm_cli.errors import InputError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.settings import settings_from
from genrm_cli.settings.components import Component
from genrm_cli.verdicts import Reason


def score(folder, groups, size, **given):
    """Score groups of one size; return metrics, scored lines and comparisons."""
    judge = {} if "base_url" in given else {"judge": "lexical"}
    return score_with(
        folder,
        make_rollouts(groups=groups, size=size),
        settings_from(**judge | {"force": True} | given),
    )[:3]


def test_noisy_groups_stay_unscored_when_asked(tmp_path):
    """No group is certain beyond doubt, and the reason names the setting."""
    metrics, lines, _ = score(tmp_path, 24, 6, ring_k=2.0, min_reliability=1.0)
    assert metrics["unscored_reasons"] == {Reason.TOO_NOISY: 24 * 6}
    assert {line["reward"] for line in lines} == {None}


def test_a_small_input_says_nothing_of_its_noise(tmp_path):
    """Errors of one group of four would be made up: they are null, and nothing is left out for
    them.
    """
    metrics, lines, _ = score(tmp_path, 1, 4, min_reliability=0.9)
    assert metrics["reliability"]["count"] == 0
    assert {line["genrm"]["standard_error"] for line in lines} == {None}
    assert metrics["unscored"] == 0


def test_a_complete_journal_needs_no_judge(tmp_path, start_judge):
    """A blank response is never asked about: when all is known nobody is tried, and the judge may
    be gone.
    """
    server = start_judge()
    rubric = Component("care", "rubric", (("set", "therapeutic"),))
    lines = make_rollouts(groups=1, size=4)
    lines[1]["completion"] = ""
    settings = settings_from(
        base_url=(server.base_url,), model="m", components=(rubric,), force=True, give_up_after=1.0
    )
    first = score_with(tmp_path, lines, settings).metrics
    server.kill()
    again = score_with(tmp_path, lines, settings).metrics
    assert again["calls"] == 0
    assert again["comparisons_planned"] == first["comparisons_planned"] == 3 + 3


def test_a_group_that_is_too_large_is_refused_before_anything_is_asked(tmp_path):
    """The message names the group, its size, the limit and the setting that splits it."""
    path = tmp_path / "in.jsonl"
    path.write_text(
        "".join(f'{{"prompt": "q", "completion": "{number}"}}\n' for number in range(2_049))
    )
    with pytest.raises(
        InputError, match=r"group 'prompt:.*' has 2,049 rollouts; at most 2,048 .* group_by"
    ):
        genrm.score("q", [str(number) for number in range(2_049)], judge="lexical")
    run = new_run(settings_from(judge="lexical"))
    result = run_to_end(score_inputs([str(path)], run)).last
    assert result is not None
    assert isinstance(result.error, InputError)
