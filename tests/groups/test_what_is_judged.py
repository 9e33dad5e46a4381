"""What is sent to the judge of each response, and what is never compared; asked at the judge's end
of the wire.
"""

import json
from functools import partial
from itertools import chain

import pytest
from scored_here import LEXICAL, completions, dry_run, gym_line, said

from genrm_cli.catalog import ESTIMATORS, STRATEGIES
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.verdicts import Reason

SHORT = "Because."
LONG = "Because of the moon and the tide."


@pytest.fixture
def judged(judged):
    """Score with a profile that shows each text alone in a message."""
    return partial(judged, profile="nemotron")


def sent(server):
    """Return every text that was sent to the judge."""
    return [
        message["content"]
        for one in server.stats()["recent"]
        for message in one["body"]["messages"]
    ]


def called(name, **arguments):
    """Make a tool call."""
    arguments = json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": "c"}


def test_a_blank_response_is_never_sent(score, judged, judge_server):
    """It stays unscored and says why; the others are compared as if it were not there."""
    with_blank = judged(completions(SHORT, "", LONG, "<think>Hm.</think> \n"))
    assert with_blank.reasons == [None, Reason.BLANK, None, Reason.BLANK]
    assert judge_server.stats()["requests"] == with_blank.metrics["comparisons_planned"] == 2
    assert with_blank.metrics["blank_responses"] == 2
    alone = score(completions(SHORT, LONG), LEXICAL)
    first, blank, second = score(completions(SHORT, "", LONG), LEXICAL).rewards
    assert [first, second] == pytest.approx(alone.rewards)
    assert blank is None
    one = judged(completions("", SHORT, " ", "\n"))
    assert one.reasons == [Reason.BLANK, Reason.NO_OPPONENT, Reason.BLANK, Reason.BLANK]
    assert judge_server.stats()["requests"] == 2


def test_a_blank_response_may_lose(score, judged, judge_server):
    """`empty = "lose"` gives it the lowest score of its group, without asking about it; where
    nothing was compared, nobody can lose, but to the only response with text.
    """
    scored = judged(completions(SHORT, "", LONG, LONG + "!"), empty="lose")
    assert scored.rewards[1] == min(scored.rewards)
    assert judge_server.stats()["requests"] == 3
    assert scored.metrics["blank_responses"] == 1
    for texts, rewards in (
        (("", " "), [None, None]),
        (("4", ""), [3.0, 1.0]),
        (("4", "", None, "4", "  "), [3.0, 1.0, None, 3.0, 1.0]),
    ):
        assert score(completions(*texts), LEXICAL, empty="lose").rewards == rewards
    assert score(completions("4", ""), LEXICAL).rewards == [None, None]
    # A tie that the ranking breaks takes a score below that of a judge.
    judge_server.behave(verdict={"score_1": 1, "score_2": 1, "ranking": 1})
    tied = {"strategy": "all_pairs", "estimator": "simple_tiebreaker"}
    broken = judged(completions(SHORT, LONG, ""), empty="lose", use_journal=False, **tied)
    assert broken.rewards[2] == min(broken.rewards) < 1


def test_tool_calls_are_shown_as_a_transcript(judged, judge_server):
    """Responses of calls alone are no blanks: the judge sees calls, results and words."""
    result = {"type": "function_call_output", "call_id": "c", "output": "41"}
    lines = [
        gym_line([called("look", at="door")]),
        gym_line([called("count", of="tides"), result, *said("It is 41.")]),
    ]
    tool = {"type": "function", "name": "look", "description": "Looks."}
    for line in lines:
        line["responses_create_params"]["tools"] = [tool]
    scored = judged(lines)
    assert None not in scored.rewards
    assert scored.metrics["views"] == {"transcript": 1}
    shown = "\n".join(sent(judge_server))
    for text in ("[--- TOOL CALL look ---]", '{"at": "door"}', "[--- TOOL RESULT", "41"):
        assert text in shown
    assert "It is 41." in shown
    assert "- look: Looks." in shown


def test_the_arguments_of_a_tool_can_be_judged(judged, judge_server):
    """`answer_tool` shows them and nothing else; without a call of that tool a response is
    blank.
    """
    outputs = [[*said("Wait."), called("submit", text=text)] for text in ("first", "second")]
    lines = [gym_line(output) for output in (*outputs, said("I never submit."))]
    scored = judged(lines, answer_tool="submit", answer_field="text")
    assert scored.reasons == [None, None, Reason.BLANK]
    texts = sent(judge_server)
    assert {"first", "second"} <= set(texts)
    assert not any("Wait." in text or "submit" in text for text in texts)


def test_media_are_not_judged_unless_ignored(judged, judge_server):
    """A judge of text cannot see an image: the reason names it, and `ignore_media` compares all the
    same.
    """
    parts = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image"}]
    lines = [gym_line(said(text), [{"role": "user", "content": parts}]) for text in (SHORT, LONG)]
    refused = judged(lines, max_unscored="1")
    assert refused.reason_texts == ["it contains media that the judge cannot see: input_image"] * 2
    assert judge_server.stats()["requests"] == 0
    assert None not in judged(lines, ignore_media=True).rewards


@pytest.mark.parametrize(
    "text",
    [
        "<think>SECRET</think>Because.<think>SECRET</think> So.",
        "Because.\n<think>SECRET",
        "<reasoning>SECRET</reasoning>Because.",
    ],
)
def test_reasoning_never_reaches_the_judge(judged, judge_server, text):
    """Wherever it stands in a text; what is left is judged."""
    scored = judged(completions(text, LONG))
    assert None not in scored.rewards
    texts = sent(judge_server)
    assert not any("SECRET" in each for each in texts)
    assert any("Because." in each and "moon" not in each for each in texts)


MASKED = {"mask_sample": [None, None, True]}
FAILED = {"_ng_failure_class": [None, None, "timeout"]}
SUPERSEDED = {"_ng_rollout_index": [0, 1, 1], "_ng_attempt_index": [0, 1, 0]}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [(MASKED, Reason.EXCLUDED), (FAILED, Reason.EXCLUDED), (SUPERSEDED, Reason.SUPERSEDED)],
    ids=["masked", "failed", "superseded"],
)
@pytest.mark.parametrize("has_components", [False, True])
def test_excluded_rows_change_no_sibling(judged, judge_server, fields, reason, has_components):
    """Masked, failed and superseded rows say why, are not sent, and leave the rewards of the others
    as they were.
    """
    toml = "[components.win_rate]\n[components.consistency]\nextract = 'boxed'\n"
    toml += "[total]\nweights = { genrm = 1, consistency = 1 }\n"
    toml = toml if has_components else ""
    answers = [f"{SHORT} \\boxed{{1}}", f"{LONG} \\boxed{{1}}", "NEVER SENT \\boxed{2}"]
    lines = [
        gym_line(said(text), **{name: values[place] for name, values in fields.items()})
        for place, text in enumerate(answers)
    ]
    scored = judged(lines, toml)
    kept = [index for index, line_reason in enumerate(scored.reasons) if line_reason is None]
    (out,) = {0, 1, 2} - set(kept)
    assert scored.reasons[out] == reason
    assert "NEVER SENT" not in str(sent(judge_server))
    alone = judged([lines[index] for index in kept], toml)
    assert [scored.rewards[index] for index in kept] == alone.rewards


def test_a_field_does_not_score_an_excluded_row(score):
    """Not even where rewards need no judge."""
    lines = [gym_line(said(SHORT), q=1), gym_line(said(LONG), q=2, mask_sample=True)]
    toml = "[components.q]\nkind = 'field'\n[total]\nweights = { q = 1 }\n"
    scored = score(lines, toml, max_unscored="1")
    assert scored.rewards == [1.0, None]
    assert scored.reason_texts[1] == "excluded: masked (mask_sample)"


def test_reward_components_add_up_to_the_reward(score):
    """NeMo RL requires that the components sum to the reward; what stood there is kept under
    `genrm`.
    """
    before = {"correct": 1.0, "format": 0.25}
    texts = (SHORT, LONG, "")
    lines = [gym_line(said(text), reward_components=before, reward=1.25) for text in texts]
    scored = score(lines, LEXICAL)
    for line in scored.lines:
        total = sum(line["reward_components"].values())
        assert total == pytest.approx(line["reward"] or 0.0)
        assert line["genrm"]["previous_reward_components"] == before
    assert scored.rewards[2] is None
    assert scored.lines[2]["reward_components"] == {}


TEXTS = ("Paris.", "It is Paris, of course.", "Paris.", "Lyon, I think, or Paris.", "Paris.")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_texts_share_comparisons_and_reward(tmp_path, score, strategy):
    """No comparison shows a text beside itself; there are as many as for the different texts, as
    the dry run says; lines name the first.
    """
    scored = score(completions(*TEXTS), LEXICAL, strategy=strategy)
    assert scored.rewards[0] == scored.rewards[2] == scored.rewards[4] != scored.rewards[1]
    shown = [(each["i"], each["j"]) for each in scored.comparisons]
    assert {*chain.from_iterable(shown)} == {0, 1, 3}
    preview = dry_run(tmp_path, LEXICAL, strategy=strategy)
    counts = {preview.plan.planned, scored.metrics["comparisons_planned"], len(shown)}
    assert counts == {PairingPlan(strategy).count(3)}
    assert [line["genrm"].get("equal_to") for line in scored.lines] == [None, None, 0, None, 0]
    assert scored.metrics["copies"] == 2
    told = [line["genrm"]["comparisons"] for line in scored.lines]
    assert told[0] == told[2] == told[4] > 0  # a copy counts those of its original
    assert sum(scored.advantages) == pytest.approx(0)  # the mean is over copies, too


def test_reasoning_of_a_copy_counts_for_itself(score):
    """Judges do not see it, so it makes no difference to them; a length term does."""
    thoughts = [
        f"<think>{'Hm. ' * length}</think>{text}"
        for length, text in ((9, "4"), (1, "4"), (4, "It is four."))
    ]
    toml = f"{LEXICAL}[shaping]\ngroup_reasoning_length_penalty_coeff = 0.5"
    scored = score(completions(*thoughts), toml)
    bases = [line["genrm"]["base_score"] for line in scored.lines]
    assert bases[0] == bases[1]
    assert scored.lines[1]["reward"] > scored.lines[0]["reward"]
    assert len(scored.comparisons) == 2


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "more", ["", "[components.win_rate]\n[total]\nweights = { win_rate = 1, genrm = 1 }\n"]
)
def test_a_group_of_equal_texts_asks_nothing_and_gets_the_middle_score(score, estimator, more):
    """There is nothing to learn from it, and nothing failed."""
    scored = score(completions("4", "4", "4"), LEXICAL + more, estimator=estimator)
    assert scored.rewards == [3.0] * 3
    assert scored.advantages == [0.0] * 3
    assert scored.comparisons == []
    assert scored.code == 0


def test_compat_compares_equal_texts(score):
    """As NeMo Gym does."""
    scored = score(completions("4", "4", "4"), LEXICAL, compat="nemo-gym")
    assert len(scored.comparisons) == 3
    assert scored.metrics["copies"] == 0


def test_copies_are_graded_once_and_count_in_clusters(judged):
    """Copying a response must not pay: it divides its reward, and a rubric asks about it once."""
    toml = (
        "[components.care]\nkind = 'rubric'\nset = 'therapeutic'\n"
        "[diversity]\n[total]\nweights = { rubric_safety = 1, genrm = 1 }\n"
    )
    scored = judged(completions(*TEXTS), toml)
    assert sum(each.get("component") == "care" for each in scored.comparisons) == 3
    assert len(set(scored.component("rubric_safety")[::2])) == 1
    assert [line["genrm"]["diversity"]["size"] for line in scored.lines[::2]] == [3, 3, 3]
