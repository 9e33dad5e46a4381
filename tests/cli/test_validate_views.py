import json

TASK = {"role": "user", "content": "Name a river."}


def chat(reply, task="river", **fields):
    """Make a line of messages."""
    return {
        "messages": [TASK, {"role": "assistant", "content": reply}],
        "prompt_id": task,
        **fields,
    }


PICTURE = [
    {"type": "text", "text": "Look."},
    {
        "type": "image_url",
        "image_url": {"url": "data:,"},
    },
]
LINES = [
    chat("one\n" * 30),
    chat("The Volga.<|im_end|>", finish_reason="length"),
    chat("The Seine.", mask_sample=True),
    chat(PICTURE),
    chat("", "lake"),
    chat("", "lake"),
    chat("Chad.", "lake"),
]


def test_the_report_counts_what_is_not_compared(genrm, call):
    """The JSON report counts blank, truncated and excluded responses, media and stripped tokens."""
    genrm.write("in.jsonl", LINES)
    report = json.loads(call("validate in.jsonl --json").out)
    assert report["blank_responses"] == 2
    assert report["truncated_responses"] == 1
    assert report["stripped_tokens"] == 1
    assert sum(report["excluded_reasons"].values()) == 1
    assert report["excluded_reasons"] == {"masked (mask_sample)": 1}
    assert report["rollouts_with_media"] == 1
    assert report["groups_mostly_blank"] == 1
    assert report["views"] == {"answer": 2}


def test_the_report_for_people_is_short(genrm, call):
    """The printed report says what is left out, and names the mostly blank group."""
    genrm.write("in.jsonl", LINES)
    report = call("validate in.jsonl").out.decode()
    assert (
        "not compared 4: 1 excluded (masked (mask_sample)), 2 blank responses, 1 with media "
        "(--images " in report
    )
    assert "1 response truncated by a token, turn or time limit.\n" in report
    assert "view         answer in 2 groups\n" in report
    assert "  1 group: more than half of its responses are blank (prompt_id:lake)" in report


def test_score_warns_of_what_no_judge_sees(genrm, call):
    """The summary of `score` counts blank and truncated responses, exclusions and media, each
    once.
    """
    genrm.write("in.jsonl", LINES)
    said = call("score in.jsonl --judge lexical").err
    for warning in (
        "2 blank responses with nothing for the judge to see.",
        "1 response truncated by a token, turn or time limit.",
        "1 rollout unscored: excluded, for example masked (mask_sample).",
        "1 rollout unscored: it contains media that the judge cannot see, for example image",
    ):
        assert said.count(warning) == 1
    seen = call("score in.jsonl --judge lexical --ignore-media --force").err
    assert "1 rollout compared with media that the judge does not see." in seen
