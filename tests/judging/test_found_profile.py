"""A chat model that keeps to no form in words gets a JSON schema, if its server takes one."""

import json
from functools import partial

import pytest
from scored_here import completions
from small_server import answering_each, completion

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.request_form import bound_texts
from genrm_cli.judging.requests import ListwisePrompt

GOOD = "Mercury"
PROSE = "Both have their merits."
LINES = completions(f"It is {GOOD}.", "It is Mars.", "No idea.")


def answer(body, *, finish="stop"):
    """Answer in prose, or in JSON where a schema demands it; prefer what names the planet."""
    text = body["messages"][-1]["content"]
    first, _, second = text.partition("BEGIN RESPONSE 2")
    lead = (GOOD in first) - (GOOD in second.partition("END RESPONSE 2")[0])
    verdict = {"score_1": 3 + lead, "score_2": 3 - lead, "ranking": 3 - lead}
    analyses = {"response_1_analysis": "", "response_2_analysis": ""}
    if "response_format" in body:
        return completion(json.dumps(analyses | verdict))
    return completion(PROSE, finish)


def answer_lists(body):
    """Answer in prose, or fill in the schema of a request; prefer what names the planet."""
    if "response_format" not in body:
        return completion(PROSE)
    scores = body["response_format"]["json_schema"]["schema"]["properties"]["scores"]
    assert scores["required"] == list(scores["properties"])
    text = body["messages"][-1]["content"]
    shown = {label: text.partition(f"BEGIN RESPONSE {label}")[2] for label in scores["required"]}
    better = {label: GOOD in told.partition("END")[0] for label, told in shown.items()}
    graded = {label: 9 if is_better else 2 for label, is_better in better.items()}
    return completion(json.dumps({"analysis": "", "scores": graded}))


def asked_of(url, **more):
    """Return settings that name the judge, which is probed."""
    return {"model": "m", "base_url": (url,), "probe": True, **more}


def test_a_schema_is_tried_where_the_default_profile_gets_no_verdict(score):
    """After two replies without one; a later run finds the verdicts without asking."""
    with answering_each(answer) as (url, seen):
        first = score(LINES, "", **asked_of(url))
        asked = len(seen)
        again = score(LINES, "", **asked_of(url))
        assert len(seen) == asked
        concluded = score(LINES, "", **asked_of(url, conclude=True))
    with_schema = ["response_format" in body for _, _, body in seen]
    assert with_schema == sorted(with_schema)
    assert sum(with_schema) == len(seen) - 2
    assert first.rewards[0] == max(first.rewards)
    assert first.metrics["failures"] == 0
    assert first.rewards == again.rewards == concluded.rewards


@pytest.mark.parametrize("judging", ["pairwise", "listwise"])
def test_outputs_of_a_found_profile_are_up_to_date(genrm, call, judging):
    """A cron job neither scores them again, nor tests the judge."""
    genrm.write("in.jsonl", LINES)
    with answering_each(answer if judging == "pairwise" else answer_lists) as (url, seen):
        command = ("score", "in.jsonl", "--model", "m", "--base-url", url, "--judging", judging)
        call(*command).ended(0)
        asked = len(seen)
        assert "in.jsonl is up to date" in call(*command).ended(0).err
        assert len(seen) == asked


def test_lists_get_a_schema_with_the_labels_of_each_request(score):
    """Each label once, so that every reply scores the whole list; the reference of the probe has
    other labels than the lists of the run.
    """
    with answering_each(answer_lists) as (url, seen):
        scored = score(LINES, "", **asked_of(url, judging="listwise"))
    with_schema = [body for _, _, body in seen if "response_format" in body]
    assert len(with_schema) == len(seen) - 2
    assert scored.metrics["failures"] == 0
    assert scored.rewards[0] > scored.rewards[1] == scored.rewards[2]


def test_a_judge_whose_schema_holds_wrong_verdicts_is_told_as_such(call):
    """The error is about the verdicts that the schema got, after a warning that says why it was
    tried; not about words without one.
    """

    def same(body):
        equal = json.dumps({"score_1": 3, "score_2": 3, "ranking": 3})
        return completion(equal if "response_format" in body else PROSE)

    with answering_each(same) as (url, _):
        finished = call("compare A. B. --prompt Why? --model m", "--base-url", url)
    assert finished.code == 4
    told, error = finished.err.splitlines()[-2:]
    assert "got no verdict" in told
    assert "so json is used" in told
    assert "it does not prefer a right answer to nonsense: scores 3 and 3" in error


def test_a_schema_is_tried_where_the_default_profile_is_cut_off(score):
    """A small model writes until its limit."""
    with answering_each(partial(answer, finish="length")) as (url, seen):
        scored = score(LINES, "", **asked_of(url))
    assert scored.metrics["failures"] == 0
    assert "response_format" in seen[-1][2]


def test_a_profile_that_the_user_chose_is_never_replaced(score):
    """The probe refuses it, as before."""
    with (
        answering_each(answer) as (url, seen),
        pytest.raises(AssertionError, match="the judge failed"),
    ):
        score(LINES, "", **asked_of(url, profile="nemotron-plain"))
    assert not any("response_format" in body for _, _, body in seen)


def test_texts_of_a_schema_end_before_a_short_limit_of_the_reply():
    """Both analyses together leave room for the scores; a usual limit needs no bound."""
    planned = PROFILES["json"].request_fields["response_format"]
    schema = bound_texts(planned, 200)["json_schema"]["schema"]["properties"]
    assert schema["response_1_analysis"] == {"type": "string", "maxLength": 130}
    assert schema["score_1"] == {"type": "integer", "enum": (1, 2, 3, 4, 5)}
    assert bound_texts(planned, 8_192) == planned


@pytest.mark.parametrize(("size", "chars"), [(4, 260), (8, 148), (16, 40)])
def test_long_lists_leave_less_room_for_an_analysis(size, chars):
    """Each score takes tokens of the reply, too."""
    prompt = ListwisePrompt([("user", "Hi.")], [str(number) for number in range(size)])
    schema = bound_texts(PROFILES["listwise-json"].response_format_of(prompt), 200)
    properties = schema["json_schema"]["schema"]["properties"]
    assert properties["analysis"]["maxLength"] == chars
    assert len(properties["scores"]["properties"]) == size
