"""Prompts that would not fit into the context of the judge, asked at the judge's end of the
wire.
"""

from functools import partial

import pytest
from scored_here import completions, judge, settings_of

from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.previews.shown_requests import iter_shown_requests
from genrm_cli.texts.tokens import estimate_tokens

LONG = [f"Answer {number}. {'because of the tide ' * 400}So {number}." for number in range(2)]
CONTEXT = 4_096


@pytest.fixture
def judged(judged):
    """Score a group of two long responses and a short one."""
    lines = completions(*LONG, "Short.")
    return partial(judged, lines, profile="nemotron", max_reply_tokens=512)


def tell(server, length=CONTEXT):
    """Let the server tell its context as vLLM does."""
    server.behave(models=["m"], max_model_len=length)


def sent(server):
    """Return the texts of each request."""
    return [
        [message["content"] for message in one["body"]["messages"]]
        for one in server.stats()["recent"]
    ]


def shortened(scored):
    """Return how many characters were cut out of each rollout."""
    return [line["genrm"].get("shortened") for line in scored.lines]


def test_a_pair_that_does_not_fit_is_shortened(judged, judge_server):
    """Each prompt leaves room for the reply; a rollout is shown alike in all comparisons, and
    counted.
    """
    tell(judge_server)
    scored = judged(both_orders=True)
    requests = sent(judge_server)
    assert max(sum(map(estimate_tokens, texts)) for texts in requests) <= CONTEXT - 512
    assert len({text for texts in requests for text in texts}) == 4
    first, second, short = shortened(scored)
    assert second == first
    assert short is None
    assert f"[--- {first:,} characters cut ---]" in str(requests)
    assert scored.metrics["shortened_rollouts"] == 2


def test_a_context_without_room_for_texts_is_refused(judged):
    """The instructions alone may fill it: nothing could be shortened enough. A reply limit as long
    as the context reserves half of it.
    """
    with pytest.raises(AssertionError, match="leaves no room for texts"):
        judged(max_reply_tokens=8_192, max_model_len=300)
    assert shortened(judged(max_reply_tokens=8_192, max_model_len=8_192))[0]


@pytest.mark.parametrize("max_model_len", [0, 100_000])
def test_nothing_is_shortened_against_the_users_will(judged, judge_server, max_model_len):
    """Nor where the endpoint does not tell its context. Estimates of tokens are on the safe side:
    the prompt fits.
    """
    fits = 5_000
    tell(judge_server, fits)
    assert shortened(judged(max_model_len=max_model_len)) == [None] * 3
    judge_server.behave(max_model_len=fits, hides_context=True)
    assert shortened(judged()) == [None] * 3
    assert judge_server.stats()["by_status"].keys() == {"200"}
    assert "characters cut" not in str(sent(judge_server))


def test_a_run_without_endpoint_knows_the_context_of_the_journal(judged, judge_server):
    """The requests are the same as when they were asked, so the journal has all their verdicts."""
    tell(judge_server)
    asked = judged()
    requests = judge_server.stats()["requests"]
    tell(judge_server, None)
    for again in (judged(conclude=True), judged()):
        assert again.rewards == asked.rewards
        assert shortened(again) == shortened(asked)
    assert judge_server.stats()["requests"] == requests


def test_the_context_may_be_set(tmp_path, judged, judge_server):
    """For endpoints that do not tell it; `genrm show` then knows it, too."""
    given = {"profile": "nemotron", "max_reply_tokens": 512, "max_model_len": CONTEXT}
    assert shortened(judged(**given))[0]
    settings = settings_of(judge(judge_server), **given)
    (shown,) = iter_shown_requests([str(tmp_path / "in.jsonl")], new_run(settings, {}), None)
    assert [message["content"] for message in shown.messages] in sent(judge_server)
