"""Which lines of a file form a group, as the settings say."""

import json
from collections import Counter

import pytest
from scored_lines import totals_of

from genrm_cli.errors import TooManyUnscoredError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.due.refusals import refuse_unscored
from genrm_cli.jobs.previews.preview import Preview, iter_previews
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import settings_from
from genrm_cli.verdicts import Reason


def preview(folder, lines, **given):
    """Return what `genrm validate` finds in lines."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = iter_previews([str(path)], new_run(settings_from(model="m", **given)))
    assert isinstance(found, Preview)
    return found


def test_a_run_whose_groups_all_have_one_rollout_is_no_success():
    """It wrote nothing but nulls: exit code 6, unless a number was set for such rollouts or all may
    stay unscored. So did one whose rollouts have no response, which no grouping helps.
    """
    alone = RunMetrics(
        rollouts=2,
        groups=2,
        group_sizes=Counter({1: 2}),
        unscored_reasons=Counter({Reason.ALONE: 2}),
    )
    with pytest.raises(TooManyUnscoredError, match="2 of 2 rollouts are alone in their group"):
        refuse_unscored(alone, totals_of(alone), settings_from())
    refuse_unscored(alone, totals_of(alone), settings_from(max_unscored=1.0))
    alone.statuses["unscored"] = 2
    alone.unscored_reasons = Counter({Reason.NO_RESPONSE: 2})
    with pytest.raises(TooManyUnscoredError, match="no rollout has a reward, of 2: 2 × it has no"):
        refuse_unscored(alone, totals_of(alone), settings_from())
    refuse_unscored(alone, totals_of(alone), settings_from(max_unscored=1.0))
    alone.unscored_reasons.clear()
    refuse_unscored(alone, totals_of(alone), settings_from(default_score=3.0))


def with_principles(*principles):
    """Make two rollouts of NeMo Gym for each principle, all with one prompt."""
    message = {"role": "user", "content": "Hello"}
    reply = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi."}],
    }
    line = {
        "responses_create_params": {"input": [message]},
        "response": {"output": [reply]},
    }
    return [line | {"principle": principle} for principle in principles for _ in range(2)]


def test_compat_keeps_principles_apart_as_gyms_cohorts_do(tmp_path):
    """The principle is part of NeMo Gym's key whether it is sent or not."""
    lines = with_principles("Be short.", "Be long.")
    for given in ({"compat": "nemo-gym"}, {"compat": "nemo-gym", "principle": "Be."}, {}):
        assert dict(preview(tmp_path, lines, **given).counts.group_sizes) == {2: 2}


def test_compat_rejects_the_lines_that_gym_refuses(tmp_path):
    """A principle that is a list is refused by NeMo Gym (422); without `compat` it is a numbered
    list.
    """
    lines = with_principles("Be short.") + [
        line | {"principle": ["a", "b"]} for line in with_principles("")
    ]
    compat = preview(tmp_path, lines, compat="nemo-gym")
    assert compat.counts.rejected_lines == 2
    assert dict(compat.counts.group_sizes) == {2: 1}
    assert dict(preview(tmp_path, lines).counts.group_sizes) == {2: 2}


def over_steps():
    """Make two rollouts of each of two tasks at each of two steps."""
    return [
        {
            "step": step,
            "input": f"Task {task}?",
            "output": f"Reply {copy} of step {step}.",
        }
        for step in (1, 2)
        for task in "ab"
        for copy in (1, 2)
    ]


def test_several_fields_name_a_group_and_keep_training_steps_apart(tmp_path):
    """Without them the rollouts of both steps are compared, which is counted; with them, those of
    one step.
    """
    given = {"prompt_field": "input", "response_field": "output"}
    mixed = preview(tmp_path, over_steps(), **given)
    assert dict(mixed.counts.group_sizes) == {4: 2}
    assert mixed.counts.groups_over_steps == 2
    apart = preview(tmp_path, over_steps(), group_by="step, input", **given)
    assert dict(apart.counts.group_sizes) == {2: 4}
    assert apart.counts.groups_over_steps == 0
    assert dict(apart.grouped_by) == {"step, input": 4}


def test_a_line_must_have_every_field_of_its_group(tmp_path):
    """A line that lacks one of several fields is not compared, as if the only field were
    missing.
    """
    lines = over_steps()
    del lines[0]["step"]
    found = preview(
        tmp_path, lines, group_by="step,input", prompt_field="input", response_field="output"
    )
    assert [str(problem.problem) for problem in found.problems] == [
        "no field step,input, which group_by names: it is not compared"
    ]
