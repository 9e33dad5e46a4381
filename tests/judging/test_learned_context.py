"""A judge whose context nobody told: it is learned, and requests that exceed it are shortened."""

import json
import re

import pytest
from opened_judge import LONG, kind_of, open_judge
from small_server import answering_each, completion

from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.engine import CachedJudge, JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.judge_events import LearnedContextEvent
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.texts.tokens import estimate_tokens

CONTEXT = 3_000
VERDICT = '{"score_1": 4, "score_2": 2, "ranking": 2}'
PLAN = GroupPlan(PairingPlan("all_pairs", max_extra=4.0), (JudgePlan("m"),))
ONE_MORE = GroupPlan(PairingPlan("all_pairs", max_extra=1.0), (JudgePlan("m"),))
TEXTS = {
    "prose": "because of the tide " * 1_500,
    "emoji": "😀🎉🚀" * 1_200,
    "han": "这是一个很长的故事关于海" * 300,
    "base64": "Qm9uIHZveWFnZSBhbmQgZ29vZCBsdWNr" * 440,
}


def count_tokens(text):
    """Count tokens as a tokeniser might: more for emoji, Han and unbroken text than estimated."""
    wide = sum(3 if ord(sign) > 0xFFFF else 1.3 for sign in text if ord(sign) > 127)
    words = re.findall(r"[A-Za-z]+|[0-9]", text)
    return int(wide + sum(1 if len(word) < 9 else len(word) / 1.7 for word in words))


def named(tokens):
    """Refuse in words that name the context."""
    message = f"maximum context length is {CONTEXT} tokens, not {tokens}"
    return 400, {}, {"error": {"message": message}}


def in_fields(tokens):
    """Refuse as llama.cpp does."""
    error = {"type": "exceed_context_size_error", "n_ctx": CONTEXT, "n_prompt_tokens": tokens}
    return 400, {}, {"error": {"message": "refused", **error}}


def unnumbered(tokens):
    """Refuse without a number."""
    return 400, {}, {"error": {"message": "Input is too long for requested model."}}


def unlisted(tokens):
    """Refuse in words that nobody knows."""
    return 400, {}, {"error": {"message": "Das geht so nicht."}}


def without_room(tokens):
    """Answer without a word, for lack of room."""
    return completion("", "model_length", prompt_tokens=CONTEXT, completion_tokens=0)


def shown(body):
    """Return all that a request shows, and its tokens."""
    text = "\n".join(message["content"] for message in body["messages"])
    return text, count_tokens(text)


def judge_of(refuse, seen):
    """Return how a judge with this context answers, and refuses."""

    def answer(body):
        text, tokens = shown(body)
        seen.append(None if tokens > CONTEXT else text)
        if tokens > CONTEXT:
            return refuse(tokens)
        return completion(VERDICT, prompt_tokens=tokens, completion_tokens=20)

    return answer


def group_of(number, *responses):
    """Make a group of these responses to a question of its own."""
    prompt = (Turn("user", f"Question {number}?"),)
    return Group(str(number), [Rollout(prompt, (Text(text),)) for text in responses])


async def judge_all(url, groups, journal=None, events=None, plan=PLAN, **given):
    """Judge groups one after the other with one judge; return them, and the judge."""
    async with open_judge(url, profile="nemotron-plain", journal=journal, **given) as opened:
        if events is not None:
            opened.remote.learned._on_event = events.append
        judges = JudgeSet([opened.journaled or CachedJudge(opened.remote)])
        judged = [await judge_group(group, plan, judges) for group in groups]
        return judged, opened


@pytest.mark.parametrize("refuse", [named, in_fields, unnumbered, unlisted, without_room])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_request_that_is_too_long_is_shortened_and_asked_again(refuse, text):
    """Every comparison has a verdict, whatever the server says and however its tokeniser counts;
    the short responses stay whole, and what was cut is counted.
    """
    seen = []
    groups = [group_of(number, f"{text} {number}", "A word.", LONG) for number in range(3)]
    with answering_each(judge_of(refuse, seen)) as (url, _):
        judged, opened = await judge_all(url, [group_of(9, "Yes.", "No."), *groups])
    outcomes = [outcome for each in judged for _, outcome in each.results]
    assert [kind_of(outcome) for outcome in outcomes] == [None] * 10
    for each in judged[1:]:
        assert set(each.shortened) == {0, 1, 2}
        assert each.shortened[0] > 0
        assert each.shortened[1] == each.shortened[2] == 0
    assert "characters cut ---]" in "".join(filter(None, seen))
    if refuse is not without_room:
        assert opened.budget.calls == len(outcomes)  # a refusal costs nothing


@pytest.mark.parametrize("refuse", [named, in_fields, without_room])
async def test_a_context_that_is_named_is_learned_once(refuse):
    """After the first refusal, requests are shortened before they are sent, and an event names the
    setting that saves the detour.
    """
    seen = []
    events = []
    groups = [group_of(number, f"{TEXTS['prose']} {number}", "A word.") for number in range(5)]
    with answering_each(judge_of(refuse, seen)) as (url, _):
        _, opened = await judge_all(url, groups, events=events)
    assert seen.count(None) == 1
    assert opened.remote.learned.tokens == CONTEXT
    (event,) = events
    assert isinstance(event, LearnedContextEvent)
    assert "max_model_len=3000" in str(event.text())


async def test_what_was_learned_changes_no_key(tmp_path):
    """A second run finds all verdicts of the first, also those on shortened requests, and how much
    was cut.
    """
    groups = [group_of(number, f"{TEXTS['prose']} {number}", "A word.") for number in range(3)]
    seen = []
    path = str(tmp_path / "journal.sqlite")
    with answering_each(judge_of(named, seen)) as (url, _):
        with Journal(path) as journal:
            first, _ = await judge_all(url, groups, journal)
        asked = len(seen)
        with Journal(path) as journal:
            second, _ = await judge_all(url, groups, journal)
    assert len(seen) == asked
    assert [each.shortened for each in first] == [each.shortened for each in second]
    assert all(each.shortened[0] > 0 for each in first)


@pytest.mark.parametrize(
    "words",
    [
        "the token 3000 is not allowed",
        "maximum context length is 3000 tokens",  # of a request that has fewer
        "Invalid token in JSON at position 3001",
    ],
)
async def test_a_refusal_for_another_reason_shrinks_no_context(words):
    """What the server refuses whatever its length stays a failure, and teaches nothing."""
    refused = "the forbidden word"

    def answer(body):
        if refused in json.dumps(body):
            return 400, {}, {"error": {"message": words}}
        tokens = estimate_tokens(json.dumps(body))
        return completion(VERDICT, prompt_tokens=tokens, completion_tokens=20)

    long = TEXTS["prose"]
    groups = [
        group_of(0, f"{long} 0", "A word."),
        group_of(1, f"{refused} {long[:600]}", "A word."),
        group_of(2, f"{long} 2", "A word."),
    ]
    with answering_each(answer) as (url, _):
        judged, opened = await judge_all(url, groups)
    kinds = [kind_of(each.results[0][1]) for each in judged]
    assert kinds == [None, "refused", None]
    assert opened.remote.learned.tokens is None
    assert not any(chars for each in judged for chars in each.shortened.values())


async def test_a_reply_that_was_cut_off_is_asked_once_more_with_twice_the_room():
    """Not three times alike; the call counts in the ceiling of the group, and what is cut off again
    stays a failure.
    """
    limits = []

    def answer(body):
        limits.append(body["max_tokens"])
        if "hopeless" in json.dumps(body) or len(limits) % 2:
            used = body["max_tokens"]
            return completion("Let me think", "length", prompt_tokens=1_200, completion_tokens=used)
        return completion(VERDICT, prompt_tokens=1_200, completion_tokens=20)

    groups = [group_of(0, "A word.", "Another."), group_of(1, "hopeless", "Another.")]
    with answering_each(answer) as (url, _):
        judged, opened = await judge_all(url, groups, plan=ONE_MORE)
    assert limits == [16_384, 32_768] * 2
    outcomes = [each.results[0][1] for each in judged]
    assert [kind_of(outcome) for outcome in outcomes] == [None, "truncated"]
    assert [outcome.reasks for outcome in outcomes] == [1, 1]
    assert opened.budget.calls == 4
    assert opened.remote.learned.tokens is None


def cutting(cut_at, counted):
    """Return how a judge answers that cuts replies off, until the prompts are short: `cut_at` has
    the tokens of a reply by those of its prompt.
    """

    def answer(body):
        _, tokens = shown(body)
        counted.append(tokens)
        written = min(cut_at(tokens), 900)
        said = (VERDICT, "stop") if written == 900 else ("Let me think", "length")
        return completion(*said, prompt_tokens=tokens, completion_tokens=written)

    return answer


def longer_and_longer():
    """Return groups with responses of which each is longer than the one before."""
    words = "because of the tide " * 400
    return [group_of(number, words + "more " * 7 * number, "A word.") for number in range(6)]


@pytest.mark.parametrize("context", [2_560, 2_559, 2_700])
async def test_replies_that_end_at_one_total_show_a_context(context):
    """Of a server that names none, round or not: the second reply that it cut off shows it, and
    requests are shortened from then on.
    """
    counted = []
    with answering_each(cutting(lambda tokens: context - tokens, counted)) as (url, _):
        judged, opened = await judge_all(url, longer_and_longer(), plan=ONE_MORE)
    assert opened.remote.learned.tokens == context
    outcomes = [each.results[0][1] for each in judged]
    assert [kind_of(outcome) for outcome in outcomes[1:]] == [None] * 5
    assert len(counted) == opened.budget.calls


@pytest.mark.parametrize(
    "cut_at",
    [
        pytest.param(lambda tokens: 512, id="a round limit"),
        pytest.param(lambda tokens: 500, id="a limit"),
        pytest.param(lambda tokens: 899 - tokens % 7 * 50, id="a limit of time"),
    ],
)
async def test_a_servers_own_limit_of_replies_is_no_context(cut_at):
    """It cuts replies to long prompts off, wherever they end: no text is shortened for it, and each
    is asked once more.
    """
    counted = []
    with answering_each(cutting(cut_at, counted)) as (url, _):
        judged, opened = await judge_all(url, longer_and_longer(), plan=ONE_MORE)
    assert opened.remote.learned.tokens is None
    assert not any(chars for each in judged for chars in each.shortened.values())
    assert [kind_of(each.results[0][1]) for each in judged] == ["truncated"] * 6
    assert counted == sorted([*counted[::2], *counted[::2]])
