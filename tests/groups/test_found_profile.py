"""A chat model that keeps to no form in words gets a JSON schema, if its server takes one."""

import json

import pytest
from scored_components import completions, score
from small_server import answering_each

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.request_form import bound_texts

GOOD = "Mercury"
LINES = completions(f"It is {GOOD}.", "It is Mars.", "No idea.")


def answer(body):
    """Answer in prose, or in JSON where a schema demands it; prefer what names the planet."""
    text = body["messages"][-1]["content"]
    first, _, second = text.partition("BEGIN RESPONSE 2")
    lead = (GOOD in first) - (GOOD in second.partition("END RESPONSE 2")[0])
    verdict = {"score_1": 3 + lead, "score_2": 3 - lead, "ranking": 3 - lead}
    content = "Both have their merits."
    if "response_format" in body:
        content = json.dumps({"response_1_analysis": "", "response_2_analysis": "", **verdict})
    return 200, {}, {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}


def toml(url, **more):
    """Return settings that name the judge."""
    given = {"model": "m", "base_url": url, **more}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())


def test_a_schema_is_tried_where_the_default_profile_gets_no_verdict(tmp_path):
    """After two replies without one; a later run finds the verdicts without asking."""
    with answering_each(answer) as (url, seen):
        first = score(tmp_path, LINES, toml(url), probe=True)
        asked = len(seen)
        again = score(tmp_path, LINES, toml(url), probe=True)
        assert len(seen) == asked
        concluded = score(tmp_path, LINES, toml(url), conclude=True)
    with_schema = ["response_format" in body for _, _, body in seen]
    assert with_schema == sorted(with_schema)
    assert sum(with_schema) == len(seen) - 2
    assert first.rewards[0] == max(first.rewards)
    assert first.metrics["failures"] == 0
    assert first.rewards == again.rewards == concluded.rewards


def test_a_profile_that_the_user_chose_is_never_replaced(tmp_path):
    """The probe refuses it, as before."""
    with (
        answering_each(answer) as (url, seen),
        pytest.raises(AssertionError, match="the judge failed"),
    ):
        score(tmp_path, LINES, toml(url, profile="nemotron-plain"), probe=True)
    assert not any("response_format" in body for _, _, body in seen)


def test_texts_of_a_schema_end_before_a_short_limit_of_the_reply():
    """Both analyses together leave room for the scores; a usual limit needs no bound."""
    planned = PROFILES["json"].request_fields["response_format"]
    schema = bound_texts(planned, 200)["json_schema"]["schema"]["properties"]
    assert schema["response_1_analysis"] == {"type": "string", "maxLength": 130}
    assert schema["score_1"] == {"type": "integer", "enum": (1, 2, 3, 4, 5)}
    assert bound_texts(planned, 8_192) == planned
