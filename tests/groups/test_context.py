"""Prompts that would not fit into the context of the judge, asked at the judge's end of the
wire.
"""

from functools import partial

import pytest
import scored_components
from scored_components import completions, score, settings_of

from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.previews.shown_requests import iter_shown_requests
from genrm_cli.texts.tokens import estimate_tokens

LONG = [f"Answer {number}. {'because of the tide ' * 400}So {number}." for number in range(3)]
CONTEXT = 4_096
judge = partial(scored_components.judge, profile="nemotron", max_reply_tokens=512)


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


def lines():
    """Make a group of two long responses and a short one."""
    return completions(*LONG[:2], "Short.")


def test_a_pair_that_does_not_fit_is_shortened(tmp_path, judge_server):
    """Each prompt leaves room for the reply; a rollout is shown alike in all comparisons, and
    counted.
    """
    tell(judge_server)
    scored = score(tmp_path, lines(), judge(judge_server), both_orders=True)
    requests = sent(judge_server)
    assert max(sum(map(estimate_tokens, texts)) for texts in requests) <= CONTEXT - 512
    assert len({text for texts in requests for text in texts}) == 4
    first, second, short = shortened(scored)
    assert first == first
    assert second == first
    assert short is None
    assert f"[--- {first:,} characters cut ---]" in str(requests)
    assert scored.metrics["shortened_rollouts"] == 2


def test_a_context_without_room_for_texts_is_refused(tmp_path, judge_server):
    """The instructions alone may fill it: nothing could be shortened enough. A reply limit as long
    as the context reserves half of it.
    """
    given = judge(judge_server, max_reply_tokens=8_192)
    with pytest.raises(AssertionError, match="leaves no room for texts"):
        score(tmp_path, lines(), given, max_model_len=300)
    assert shortened(score(tmp_path, lines(), given, max_model_len=8_192))[0]


@pytest.mark.parametrize(
    "more",
    [
        {"max_model_len": 0},
        {"max_model_len": 100_000},
    ],
)
def test_nothing_is_shortened_against_the_users_will(tmp_path, judge_server, more):
    """Nor where the endpoint does not tell its context. Estimates of tokens are on the safe side:
    the prompt fits.
    """
    fits = 5_000
    tell(judge_server, fits)
    assert shortened(score(tmp_path, lines(), judge(judge_server), **more)) == [None] * 3
    judge_server.behave(max_model_len=fits, hides_context=True)
    assert shortened(score(tmp_path, lines(), judge(judge_server))) == [None] * 3
    assert judge_server.stats()["by_status"].keys() == {"200"}
    assert "characters cut" not in str(sent(judge_server))


def test_a_run_without_endpoint_knows_the_context_of_the_journal(tmp_path, judge_server):
    """The requests are the same as when they were asked, so the journal has all their verdicts."""
    tell(judge_server)
    asked = score(tmp_path, lines(), judge(judge_server))
    requests = judge_server.stats()["requests"]
    tell(judge_server, None)
    concluded = score(tmp_path, lines(), judge(judge_server), conclude=True)
    again = score(tmp_path, lines(), judge(judge_server))
    assert concluded.rewards == asked.rewards
    assert again.rewards == asked.rewards
    assert shortened(concluded) == shortened(asked)
    assert shortened(again) == shortened(asked)
    assert judge_server.stats()["requests"] == requests


def test_the_context_may_be_set(tmp_path, judge_server):
    """For endpoints that do not tell it; `genrm show` then knows it, too."""
    scored = score(tmp_path, lines(), judge(judge_server, max_model_len=CONTEXT))
    assert shortened(scored)[0]
    settings = settings_of(judge(judge_server, max_model_len=CONTEXT))
    (shown,) = iter_shown_requests([str(tmp_path / "in.jsonl")], new_run(settings, {}), None)
    assert [message["content"] for message in shown.messages] in sent(judge_server)
