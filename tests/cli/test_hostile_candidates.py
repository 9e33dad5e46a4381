"""What a hostile candidate writes is broken up where a judge could take it for its own."""

import pytest
from hostile_texts import TEXTS

from genrm_cli.judging.lookup import find_profile

# A thought is removed before anything is shown, and tags alone are a blank response.
HIDDEN = ("</think>", "<answer>" * 50)
SHOWN = [text for text in TEXTS if "<think>" not in text and text not in HIDDEN]
GROUP_SIZE = 7


def shown_of(text):
    """Return what the judge is shown: no end of a thought, channel, or token that ends a reply."""
    shown = text.removeprefix("<|channel|>final<|message|>").removeprefix("</think>")
    for token in ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"):
        shown = shown.removesuffix(token)
    return shown


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_scored_lines_say_what_was_broken_up(genrm, call_judged, judge_server, profile):
    """Each line counts the places where the judge was shown a sign; the judge is told in requests
    with signs only.
    """
    lines = [
        {"prompt": f"Question {n // GROUP_SIZE}? {SHOWN[n // GROUP_SIZE]}", "completion": text}
        for n, text in enumerate(SHOWN)
    ]
    genrm.write("in.jsonl", lines)
    call_judged(f"score in.jsonl --profile {profile}").ended(0)
    counts = [line["genrm"].get("neutralised", 0) for line in genrm.lines()]
    forms = find_profile(profile, None).forms
    for text, count in zip(SHOWN, counts, strict=True):
        assert count == len(forms.find(shown_of(text))), text
    changed = sum(map(bool, counts))
    assert 10 < changed < len(SHOWN)
    assert genrm.metrics()["neutralised"] == changed
    requests = [each["body"]["messages"] for each in judge_server.stats()["recent"]]
    told = []
    for messages in requests:
        texts = [message["content"] for message in messages]
        told.append("the sign ¦" in texts[0])
        assert told[-1] == any("¦" in text for text in texts)
    assert set(told) == {True, False}
