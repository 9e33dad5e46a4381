import gzip
import json
import math
import random
import statistics
from typing import NamedTuple

import pytest
from genrm_process import SAMPLE_DATA, Json, make_rollouts, read_lines, without_rewards
from hypothesis import given, settings
from hypothesis import strategies as st
from scored_lines import totals_of

from genrm_cli.cli.options import run_to_end
from genrm_cli.errors import InputError, JudgeError, TooManyUnscoredError, UsageError
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.due.inputs import output_places
from genrm_cli.jobs.due.refusals import refuse_unscored
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings import settings_from
from genrm_cli.settings.components import Shaping
from genrm_cli.verdicts import Reason


class Scored(NamedTuple):
    """What a run gave back and left behind."""

    lines: list[Json]
    metrics: Json
    comparisons: list[Json]
    tally: RunMetrics

    @property
    def rewards(self) -> list[float | None]:
        """The rewards in the order of the lines."""
        return [line["reward"] for line in self.lines]


def score(folder, lines, **given):
    """Score lines with the embedded judge, or with what the settings say."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    judge = {} if "base_url" in given else {"judge": "lexical"}
    run = new_run(settings_from(**judge, force=True, **given))
    record = score_input(str(path), run)
    comparisons = read_lines(folder / "in.comparisons.jsonl")
    return Scored(
        read_lines(folder / "in.scored.jsonl"), to_json(record), comparisons, run.progress.total()
    )


def score_input(uri, run):
    """Score one input, or raise what kept it from being scored."""
    batch = run_to_end(score_inputs([uri], run))
    if batch.fatal is not None:
        raise batch.fatal
    assert batch.last is not None
    if batch.last.record is None:
        assert batch.last.error is not None
        raise batch.last.error
    return batch.last.record


def at_judge(server, **given):
    """Return settings for the local judge that ask once, do not wait and remember nothing."""
    once = {
        "probe": False,
        "retries": 0,
        "use_journal": False,
    }
    return {
        "base_url": (server.base_url,),
        "model": "m",
        **once,
        **given,
    }


def half_answered():
    """Make a group of which one rollout has no response, and a group of one."""
    lines = [
        *make_rollouts(groups=1, size=3),
        {
            "prompt": "Alone?",
            "completion": "Yes.",
            "id": 9,
        },
    ]
    lines[1]["completion"] = None
    return lines


def test_the_order_of_lines_that_are_numbered_does_not_matter(tmp_path):
    """The sample lines in another order get the same rewards, ranks and advantages.

    But for rounding: what is known of the judge is a sum over the groups, in the order in which
    they come."""
    for name in ["rollouts.jsonl", "episodes.jsonl"]:
        for strategy in ["ring", "all_pairs"]:
            lines = read_lines(SAMPLE_DATA / name)
            shuffled = lines[:]
            random.Random(7).shuffle(shuffled)
            given = {
                "strategy": strategy,
                "shaping": Shaping(group_style_penalty_coeff=0.1, answer_bonus=0.5),
            }
            one = score(tmp_path, lines, **given)
            other = score(tmp_path, shuffled, **given)

            def by_line(run):
                found = {}
                for line in run.lines:
                    detail = {key: value for key, value in line["genrm"].items() if key != "group"}
                    numbers = json.dumps([line.get("reward"), detail], sort_keys=True)
                    rounded = json.loads(
                        numbers, parse_float=lambda digits: round(float(digits), 9)
                    )
                    found[json.dumps(without_rewards(line), sort_keys=True)] = rounded
                return found

            assert by_line(one) == by_line(other)


def test_advantages_are_on_the_scale_of_the_run(tmp_path):
    """Pooled ones from the variances of the group and of all groups; raw ones from the mean
    alone.
    """
    lines = make_rollouts(groups=3, size=4)
    scored = score(tmp_path, lines).lines
    groups = [scored[start : start + 4] for start in (0, 4, 8)]
    rewards = [[line["reward"] for line in group] for group in groups]
    variances = [statistics.variance(group) for group in rewards]
    for group, known, own in zip(groups, rewards, variances, strict=True):
        scale = math.sqrt((own + statistics.fmean(variances)) / 2)
        expected = [(reward - statistics.fmean(known)) / scale for reward in known]
        assert [line["genrm"]["advantage"] for line in group] == pytest.approx(expected)
    raw = score(tmp_path, lines, advantage="raw").lines[:4]
    assert [line["genrm"]["advantage"] for line in raw] == pytest.approx(
        [reward - statistics.fmean(rewards[0]) for reward in rewards[0]]
    )


@settings(max_examples=4)
@given(st.data())
def test_interleaved_groups_are_told_apart(tmp_path_factory, data):
    """However the lines of groups are mixed, each line gets nearly the reward that its group alone
    would give it.
    """
    folder = tmp_path_factory.mktemp("mixed", numbered=True)
    lines = [
        {
            **line,
            "rollout_index": line["id"] % 3,
            "prompt_id": line["id"] // 3,
        }
        for line in make_rollouts(3, 3)
    ]
    alone = {}
    for start in (0, 3, 6):
        for line in score(folder, lines[start : start + 3]).lines:
            alone[line["id"]] = line["reward"]
    mixed = score(folder, data.draw(st.permutations(lines)))
    assert {line["id"]: line["reward"] for line in mixed.lines} == pytest.approx(alone, abs=0.02)


def test_what_an_unscored_rollout_gets_is_the_users_choice(tmp_path):
    """`null` by default, or the number asked for; status and reason say that it is no verdict."""
    for unscored, expected in [("null", None), ("2.5", 2.5), ("-1", -1.0)]:
        run = score(tmp_path, half_answered(), unscored=unscored)
        assert run.rewards[1] == expected
        assert run.lines[1]["genrm"]["status"] == "unscored"
        assert run.lines[1]["genrm"]["reason"]
        assert run.lines[1]["genrm"]["base_score"] is None
        assert run.metrics["unscored"] == 2
        assert run.metrics["reward"]["count"] == 2
        assert [line["genrm"]["status"] for line in run.lines] == [
            "scored",
            "unscored",
            "scored",
            "unscored",
        ]
        assert run.lines[3]["genrm"]["reason"] == Reason.ALONE


def test_unscored_lines_can_be_left_out(tmp_path):
    """With `drop` the line is not in the output, and is counted."""
    run = score(tmp_path, half_answered(), unscored="drop")
    assert [line["id"] for line in run.lines] == [0, 2]
    assert run.metrics["dropped_lines"] == 2


def test_the_limit_of_unscored_rollouts(tmp_path):
    """The share among rollouts in groups of two and more decides; here it is a third."""
    for limit, refused in [(0.0, True), (0.33, True), (0.34, False), (1.0, False)]:
        run = score(tmp_path, half_answered())
        assert run.metrics["unscored_share"] == pytest.approx(1 / 3)
        if refused:
            with pytest.raises(TooManyUnscoredError, match="1 of 3"):
                refuse_unscored(run.tally, totals_of(run.tally), settings_from(max_unscored=limit))
        else:
            refuse_unscored(run.tally, totals_of(run.tally), settings_from(max_unscored=limit))


def test_a_field_can_name_the_group(tmp_path):
    """`group_by` groups by a dotted path; a line without that field is unscored, and says so."""
    lines = [
        {
            **line,
            "meta": {"task": line["id"] % 2},
            "prompt": "Why?",
        }
        for line in make_rollouts(2, 2)
    ]
    lines.append({"prompt": "Why?", "completion": "So."})
    run = score(tmp_path, lines, group_by="meta.task")
    assert [line["genrm"]["group"] for line in run.lines[:4]] == ["meta.task:0", "meta.task:1"] * 2
    assert run.metrics["group_sizes"] == {"1": 1, "2": 2}
    assert run.lines[4]["reward"] is None
    assert run.lines[4]["genrm"]["reason"] == Reason.NO_GROUP
    assert run.tally.unscored_share == pytest.approx(1 / 5)


def test_an_input_that_is_something_else_replaces_nothing(tmp_path):
    """An input without one readable line is refused with a hint at what it is, and old outputs
    stay.
    """
    cases = {
        "gzip": (gzip.compress(b'{"prompt": "Why?", "completion": "So."}'), "rename it: mv"),
        "utf-16": ('{"prompt": "Why?"}'.encode("utf-16"), "UTF-16"),
    }
    for case, (content, hint) in cases.items():
        (tmp_path / "in.jsonl").write_bytes(content)
        (tmp_path / "in.scored.jsonl").write_text("old")
        settings = settings_from(judge="lexical", force=True)
        with pytest.raises(InputError, match=hint):
            score_input(str(tmp_path / "in.jsonl"), new_run(settings))
        assert (tmp_path / "in.scored.jsonl").read_text() == "old", case


def test_compat_gives_no_rewards_without_an_answer(tmp_path, judge_server):
    """A judge that answers no call at all is an error, and not a file of defaults."""
    for fault in [{"status": 500}, {"reset": "before"}, {"body": "<html>"}]:
        judge_server.behave(fault=fault)
        with pytest.raises(JudgeError, match="the judge answered none of 6 calls"):
            score(tmp_path, make_rollouts(2, 3), **at_judge(judge_server, compat="nemo-gym"))


def test_compat_counts_the_rewards_that_rest_on_defaults(tmp_path, judge_server):
    """--compat nemo-gym gives (3, 3, 3.5) for every failure, and says how many rewards that
    touched.
    """
    for fault in [{"content": "no idea"}, {"content": ""}]:
        judge_server.behave(fault=fault)
        run = score(tmp_path, make_rollouts(2, 3), **at_judge(judge_server, compat="nemo-gym"))
        assert run.rewards == [3.0] * 6
        assert run.metrics["rewards_on_defaults"] == 6
        assert run.metrics["failures"] == 6
        assert run.metrics["verdicts"] == 0
        assert run.metrics["unscored"] == 0
        assert run.metrics["tiebreak_usage_rate"] == 1.0
        assert all(line["genrm"]["defaulted"] == line["genrm"]["failed"] == 2 for line in run.lines)
        for record in run.comparisons:
            assert record["score_1"] == 3.0
            assert record["score_2"] == 3.0
            assert record["ranking"] == 3.5
            assert record["failure"] is not None


def test_verdicts_that_the_reference_would_fill_are_failures_here(tmp_path, judge_server):
    """A reply with one key of three is a verdict with defaults under --compat, and a failure
    without.
    """
    judge_server.behave(fault={"content": '{"score_1": 5}'})
    lines = make_rollouts(1, 2)
    assert score(tmp_path, lines, **at_judge(judge_server)).rewards == [None, None]
    compat = score(tmp_path, lines, **at_judge(judge_server, compat="nemo-gym", use_journal=True))
    assert compat.rewards == [4.0, 4.0]
    assert compat.metrics["failures"] == 0
    # What was read with defaults is not taken from the journal by a run without them.
    assert score(tmp_path, lines, **at_judge(judge_server, use_journal=True)).rewards == [
        None,
        None,
    ]


def without(record, name):
    """Return a record without one of its keys."""
    return {key: value for key, value in record.items() if key != name}


def test_judging_again_keeps_what_was_there(tmp_path):
    """A file that was scored before keeps its earlier reward and `genrm` object under the new one,
    one level deep.
    """
    once = score(tmp_path, make_rollouts(1, 3)).lines
    twice = score(tmp_path, once, strategy="all_pairs").lines
    thrice = score(tmp_path, twice).lines
    for first, second, third in zip(once, twice, thrice, strict=True):
        assert second["genrm"]["previous_reward"] == first["reward"]
        assert second["genrm"]["previous_genrm"] == first["genrm"]
        assert third["genrm"]["previous_genrm"] == without(second["genrm"], "previous_genrm")


def test_no_output_is_the_input():
    """A place that would replace the input is refused, also for the companions of the scored
    file.
    """
    cases = [
        ("run.jsonl", "./run.jsonl"),
        ("s3://b/rl/run.jsonl", "s3://b/rl/run.jsonl"),
        ("run.metrics.json", "run.jsonl"),
    ]
    for input_uri, output in cases:
        with pytest.raises(UsageError, match="is the input"):
            output_places(input_uri, settings_from(output=output))


def test_rewards_follow_from_base_scores_and_adjustments_with_every_term(tmp_path):
    """Length terms are centred: they shift rollouts against one another, never the mean of the
    group.
    """
    run = score(
        tmp_path,
        make_rollouts(1, 4),
        shaping=Shaping(group_answer_length_penalty_coeff=0.5, group_style_penalty_coeff=0.3),
    )
    shifts = [line["reward"] - line["genrm"]["base_score"] for line in run.lines]
    assert math.isclose(sum(shifts), 0, abs_tol=1e-7)
    assert shifts[0] > shifts[3]  # the shortest gains, the longest loses
