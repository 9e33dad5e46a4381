"""What is sent to the judge of each response, and what is never compared; asked at the judge's end
of the wire.
"""

import json
from functools import partial

import pytest
import scored_components
from genrm_process import read_lines
from scored_components import completions, score, settings_of

from genrm_cli.cli.options import run_to_end
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.verdicts import Reason

SHORT = "Because."
LONG = "Because of the moon and the tide."
LEXICAL = "judge = 'lexical'\n"
judge = partial(scored_components.judge, profile="nemotron")


def sent(server):
    """Return every text that was sent to the judge."""
    return [
        message["content"]
        for one in server.stats()["recent"]
        for message in one["body"]["messages"]
    ]


def said(text):
    """Make a message item."""
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def called(name, **arguments):
    """Make a tool call."""
    return {
        "type": "function_call",
        "name": name,
        "arguments": json.dumps(arguments),
        "call_id": "c",
    }


def gym_lines(*outputs, given="Why?", task=0, **fields):
    """Make NeMo Gym lines of one task; of each further field, every line gets its own value, None
    for none.
    """
    lines = [
        {
            "_ng_task_index": task,
            "responses_create_params": {"input": given},
            "response": {"output": output},
        }
        for output in outputs
    ]
    for name, values in fields.items():
        for line, value in zip(lines, values, strict=True):
            if value is not None:
                line[name] = value
    return lines


def test_a_blank_response_is_never_sent(tmp_path, judge_server):
    """It stays unscored and says why; the others are compared as if it were not there."""
    with_blank = score(
        tmp_path, completions(SHORT, "", LONG, "<think>Hm.</think> \n"), judge(judge_server)
    )
    assert with_blank.reasons == [None, Reason.BLANK, None, Reason.BLANK]
    assert judge_server.stats()["requests"] == with_blank.metrics["comparisons_planned"] == 2
    assert with_blank.metrics["blank_responses"] == 2
    alone = score(tmp_path, completions(SHORT, LONG), LEXICAL)
    first, blank, second = score(tmp_path, completions(SHORT, "", LONG), LEXICAL).rewards
    assert [first, second] == pytest.approx(alone.rewards)
    assert blank is None


def test_a_group_of_blank_responses_costs_nothing(tmp_path, judge_server):
    """Its one response with words has no opponent, and the metrics count the group."""
    lines = completions("", SHORT, " ", "\n")
    scored = score(tmp_path, lines, judge(judge_server))
    assert scored.reasons == [
        Reason.BLANK,
        Reason.NO_OPPONENT,
        Reason.BLANK,
        Reason.BLANK,
    ]
    assert judge_server.stats()["requests"] == 0


def test_a_blank_response_may_lose(tmp_path, judge_server):
    """`empty = "lose"` gives it the lowest score of its group, without asking about it."""
    scored = score(
        tmp_path, completions(SHORT, "", LONG, LONG + "!"), judge(judge_server, empty="lose")
    )
    rewards = [reward for reward in scored.rewards if reward is not None]
    assert len(rewards) == 4
    assert scored.rewards[1] == min(rewards)
    assert judge_server.stats()["requests"] == 3
    assert scored.metrics["blank_responses"] == 1


def test_without_a_score_to_undercut_a_blank_response_stays_unscored(tmp_path):
    """Where nothing was compared, nobody can lose."""
    assert score(tmp_path, completions("", " "), LEXICAL + "empty = 'lose'\n").rewards == [
        None,
        None,
    ]


def test_tool_calls_are_shown_as_a_transcript(tmp_path, judge_server):
    """Responses of calls alone are no blanks: the judge sees calls, results and words."""
    result = {
        "type": "function_call_output",
        "call_id": "c",
        "output": "41",
    }
    lines = gym_lines(
        [called("look", at="door")], [called("count", of="tides"), result, said("It is 41.")]
    )
    for line in lines:
        line["responses_create_params"]["tools"] = [
            {
                "type": "function",
                "name": "look",
                "description": "Looks.",
            }
        ]
    scored = score(tmp_path, lines, judge(judge_server))
    assert None not in scored.rewards
    assert scored.metrics["views"] == {"transcript": 1}
    shown = "\n".join(sent(judge_server))
    for text in (
        "[--- TOOL CALL look ---]",
        '{"at": "door"}',
        "[--- TOOL RESULT",
        "41",
        "It is 41.",
        "- look: Looks.",
    ):
        assert text in shown


def test_the_arguments_of_a_tool_can_be_judged(tmp_path, judge_server):
    """`answer_tool` shows them and nothing else; without a call of that tool a response is
    blank.
    """
    outputs = [[said("Wait."), called("submit", text=text)] for text in ("first", "second")]
    lines = gym_lines(*outputs, [said("I never submit.")])
    scored = score(tmp_path, lines, judge(judge_server, answer_tool="submit", answer_field="text"))
    assert scored.reasons == [None, None, Reason.BLANK]
    texts = sent(judge_server)
    assert {"first", "second"} <= set(texts)
    assert not any("Wait." in text or "submit" in text for text in texts)


def test_media_are_not_judged_unless_ignored(tmp_path, judge_server):
    """A judge of text cannot see an image: the reason names it, and `ignore_media` compares all the
    same.
    """
    given = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "What is it?"}, {"type": "input_image"}],
        }
    ]
    lines = gym_lines([said(SHORT)], [said(LONG)], given=given)
    refused = score(tmp_path, lines, judge(judge_server), max_unscored="1")
    assert refused.reason_texts == ["it contains media that the judge cannot see: input_image"] * 2
    assert judge_server.stats()["requests"] == 0
    assert None not in score(tmp_path, lines, judge(judge_server, ignore_media=True)).rewards


@pytest.mark.parametrize(
    "text",
    [
        "<think>SECRET</think>Because.",
        "<think>SECRET</think>Because.<think>SECRET</think> So.",
        "Because.\n<think>SECRET",
        "<reasoning>SECRET</reasoning>Because.",
    ],
)
def test_reasoning_never_reaches_the_judge(tmp_path, judge_server, text):
    """Wherever it stands in a text; what is left is judged."""
    scored = score(tmp_path, completions(text, LONG), judge(judge_server))
    assert None not in scored.rewards
    texts = sent(judge_server)
    assert not any("SECRET" in each for each in texts)
    assert any("Because." in each and "moon" not in each for each in texts)


EXCLUDED = [
    pytest.param({"mask_sample": [None, None, True]}, Reason.EXCLUDED, id="masked"),
    pytest.param({"_ng_failure_class": [None, None, "timeout"]}, Reason.EXCLUDED, id="failed"),
    pytest.param(
        {
            "_ng_rollout_index": [0, 1, 1],
            "_ng_attempt_index": [0, 1, 0],
        },
        Reason.SUPERSEDED,
        id="superseded",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), EXCLUDED)
@pytest.mark.parametrize(
    "toml", ["", "[components.win_rate]\n[components.consistency]\nextract = 'boxed'\n"]
)
def test_excluded_rows_change_no_sibling(
    tmp_path,
    judge_server,
    fields,
    reason,
    toml,
):
    """Masked, failed and superseded rows say why, are not sent, and leave the rewards of the others
    as they were.
    """
    toml += "[total]\nweights = { genrm = 1, consistency = 1 }\n" if toml else ""
    answers = [
        f"{text} \\boxed{{{number}}}" for text, number in ((SHORT, 1), (LONG, 1), ("NEVER SENT", 2))
    ]
    lines = gym_lines(*([said(text)] for text in answers), **fields)
    scored = score(tmp_path, lines, judge(judge_server) + toml)
    kept = [index for index, line_reason in enumerate(scored.reasons) if line_reason is None]
    (out,) = {0, 1, 2} - set(kept)
    assert scored.reasons[out] == reason
    assert not any("NEVER SENT" in text for text in sent(judge_server))
    alone = score(tmp_path, [lines[index] for index in kept], judge(judge_server) + toml)
    assert [scored.rewards[index] for index in kept] == alone.rewards


def test_a_field_does_not_score_an_excluded_row(tmp_path):
    """Not even where rewards need no judge."""
    lines = gym_lines([said(SHORT)], [said(LONG)], mask_sample=[None, True], q=[1, 2])
    scored = score(
        tmp_path,
        lines,
        "[components.q]\nkind = 'field'\n[total]\nweights = { q = 1 }\n",
        max_unscored="1",
    )
    assert scored.rewards == [1.0, None]
    assert scored.reason_texts[1] == "excluded: masked (mask_sample)"


def test_reward_components_add_up_to_the_reward(tmp_path):
    """NeMo RL requires that the components sum to the reward; what stood there is kept under
    `genrm`.
    """
    before = {"correct": 1.0, "format": 0.25}
    lines = gym_lines(
        [said(SHORT)], [said(LONG)], [said("")], reward_components=[before] * 3, reward=[1.25] * 3
    )
    scored = score(tmp_path, lines, LEXICAL)
    for line in scored.lines:
        assert (
            line["reward"] is None
            or abs(sum(line["reward_components"].values()) - line["reward"]) < 1e-6
        )
        assert line["genrm"]["previous_reward_components"] == before
    assert scored.rewards[2] is None
    assert scored.lines[2]["reward_components"] == {}


def test_named_fields_score_an_unknown_shape(tmp_path, judge_server):
    """Dotted paths name prompt, response and group."""
    lines = [
        {
            "q": {"text": "Why?"},
            "out": {"text": text},
            "id": 7,
        }
        for text in (SHORT, LONG)
    ]
    fields = {
        "prompt_field": "q.text",
        "response_field": "out.text",
        "id_field": "id",
    }
    scored = score(tmp_path, lines, judge(judge_server, **fields))
    assert None not in scored.rewards
    assert {line["genrm"]["group"] for line in scored.lines} == {"id:7"}
    assert {"Why?", SHORT, LONG} <= set(sent(judge_server))


def test_another_reading_pays_for_nothing_twice(tmp_path, judge_server):
    """Outputs of a version that read responses differently are written again, from the journal."""
    lines = completions(SHORT, LONG)
    toml = judge(judge_server)
    first = score(tmp_path, lines, toml)
    metrics = tmp_path / "in.metrics.json"
    metrics.write_text(json.dumps(first.metrics | {"reading_version": READING_VERSION - 1}))
    run = new_run(settings_of(toml, force=False))
    result = run_to_end(score_inputs([str(tmp_path / "in.jsonl")], run)).last
    assert result is not None
    assert result.status == "scored"
    assert "responses are read differently now" in str(result.reason)
    again = json.loads(metrics.read_bytes())
    assert again["calls"] == 0
    assert again["reading_version"] == READING_VERSION
    assert read_lines(tmp_path / "in.scored.jsonl") == first.lines
