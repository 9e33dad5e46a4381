import http.client
import json
from typing import Any

import pytest
from judge_behaviour import find_responses
from judge_families import PAIR_PROFILES
from judge_server_fixture import JudgeServer

from genrm_cli.judging.requests import PairwisePrompt

SHORT, LONG = "A word.", "A full answer that explains itself, step by step, with care."


def comparison(first: str = SHORT, second: str = LONG, question: str = "Why?") -> dict[str, Any]:
    """Build a request that compares two responses."""
    turns = [("user", question), ("response_1", first), ("response_2", second)]
    return {"model": "m", "messages": [{"role": role, "content": text} for role, text in turns]}


def post(server: JudgeServer, request: Any, timeout_s: float = 5, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send one request; returns status, headers by lower-case name, and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(request), headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def choice(body: bytes) -> dict[str, Any]:
    """Return the only choice of a completion."""
    picked: dict[str, Any] = json.loads(body)["choices"][0]
    return picked


def verdict(body: bytes) -> tuple[float, float, float]:
    """Return the three numbers in the fenced block."""
    content = choice(body)["message"]["content"]
    fields = json.loads(content.split("```json\n")[1].split("```")[0])
    return fields["score_1"], fields["score_2"], fields["ranking"]


def test_the_longer_response_wins_and_a_swap_turns_the_verdict_round(judge_server: JudgeServer) -> None:
    """By default length decides: scores swap with the responses, and ranking becomes 7 - ranking."""
    assert verdict(post(judge_server, comparison(SHORT, LONG))[2]) == (1, 5, 6)
    assert verdict(post(judge_server, comparison(LONG, SHORT))[2]) == (5, 1, 1)
    score_1, score_2, ranking = verdict(post(judge_server, comparison("same", "size"))[2])
    assert (score_1, score_2) == (3, 3)
    assert verdict(post(judge_server, comparison("size", "same"))[2]) == (3, 3, 7 - ranking)


@pytest.mark.parametrize("name", sorted(PAIR_PROFILES))
@pytest.mark.parametrize("texts", [(SHORT, LONG), ("", LONG), ("two\n\nlines", "")])
def test_the_responses_of_every_profile_are_found(name: str, texts: tuple[str, str]) -> None:
    """Whatever way a profile asks, the judge sees the two texts that were shown."""
    prompt = PairwisePrompt([("user", "Why?"), ("assistant", "Because."), ("user", "Really?")], *texts)
    assert find_responses(PAIR_PROFILES[name].render_messages(prompt)) == texts


def test_unknown_roles_are_refused_or_silently_dropped(judge_server: JudgeServer) -> None:
    """Dropped roles leave few prompt tokens and a verdict that does not follow a swap."""
    judge_server.behave(unknown_roles="reject")
    assert post(judge_server, comparison())[0] == 400
    judge_server.behave(unknown_roles="ignore")
    one, two = (post(judge_server, comparison(*pair))[2] for pair in [(SHORT, LONG), (LONG, SHORT)])
    assert verdict(one) == verdict(two)
    assert json.loads(one)["usage"]["prompt_tokens"] == len("Why?") // 4
