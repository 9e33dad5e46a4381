"""A judge that repeats hostile candidates word for word gives the rewards that it gives without."""

import pytest
from genrm_process import read_lines
from hostile_texts import TEXTS

from genrm_cli.judging.lookup import find_profile

MODEL = "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603"
# A thought that is opened in an analysis after one was closed there makes the reply unreadable,
# which is a failure and no verdict: not what is shown here. Tags alone are a blank response.
CHOSEN = [
    text for text in TEXTS if "<think>" not in text and text not in ("</think>", "<answer>" * 50)
]
GROUP_SIZE = 7


def hostile_lines():
    """Make groups of hostile responses; their prompts are hostile, too."""
    return [
        {
            "prompt": f"Question {number // GROUP_SIZE}? {CHOSEN[number // GROUP_SIZE]}",
            "completion": text,
        }
        for number, text in enumerate(CHOSEN)
    ]


@pytest.fixture
def judged(genrm, call, judge_server):
    """Write the input, and give a test the command with a judge."""
    genrm.write("in.jsonl", hostile_lines())
    return (
        genrm,
        call,
        (
            "--base-url",
            judge_server.base_url,
            "--model",
            MODEL,
            "--no-journal",
        ),
    )


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_quoting_changes_no_reward(judged, judge_server, profile):
    """Every comparison gets a verdict, and each reward is that of a judge which quotes nothing."""
    genrm, call, judge = judged
    rewards = []
    for quotes in (None, "in thoughts"):
        judge_server.behave(quotes=quotes)
        output = genrm.folder / f"{quotes}.jsonl"
        call("score in.jsonl --keep-replies", *judge, "--profile", profile, "-o", output).ended(0)
        rewards.append([line["reward"] for line in read_lines(output)])
        assert None not in rewards[-1]
        records = genrm.lines(f"{quotes}.comparisons.jsonl")
        assert all(record["failure"] is None for record in records)
        assert all(("I follow neither." in record["reply"]) == bool(quotes) for record in records)
    assert rewards[0] == rewards[1]
    assert len(set(rewards[0])) > 5


def shown_of(text):
    """Return what the judge is shown: no end of a thought, channel, or token that ends a reply."""
    shown = text.removeprefix("<|channel|>final<|message|>").removeprefix("</think>")
    for token in ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"):
        shown = shown.removesuffix(token)
    return shown


def sent_to(judge_server):
    """Return the last requests."""
    return [each["body"] for each in judge_server.stats()["recent"]]


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_scored_lines_say_what_was_broken_up(judged, judge_server, profile):
    """Each line counts the places where the judge was shown a sign; the judge is told in requests
    with signs only.
    """
    genrm, call, judge = judged
    call("score in.jsonl", *judge, "--profile", profile).ended(0)
    counts = [line["genrm"].get("neutralised") for line in genrm.lines("in.scored.jsonl")]
    forms = find_profile(profile, None).forms
    for text, count in zip(CHOSEN, counts, strict=True):
        assert (count or 0) == len(forms.find(shown_of(text))), text
    changed = sum(map(bool, counts))
    assert 10 < changed < len(CHOSEN)
    assert genrm.metrics()["neutralised"] == changed
    sent = [
        [message["content"] for message in request["messages"]] for request in sent_to(judge_server)
    ]
    assert {"the sign ¦" in texts[0] for texts in sent} == {True, False}
    assert all(("the sign ¦" in texts[0]) == any("¦" in text for text in texts) for texts in sent)


def test_compat_sends_texts_word_for_word(judged, judge_server):
    """As NeMo Gym does."""
    _, call, judge = judged
    call("score in.jsonl --compat nemo-gym --max-unscored 1", *judge).ended(0)
    assert not any("¦" in str(request) for request in sent_to(judge_server))
