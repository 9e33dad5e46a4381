"""What labelled lines mean, and which are refused."""

import json
from pathlib import Path

import pytest

from genrm_cli.jobs.context import new_run
from genrm_cli.products.evaluation.pair_job import job_of, open_pairs
from genrm_cli.products.evaluation.pair_lines import parse_labelled
from genrm_cli.rollouts.rollout import Turn, UnreadableRecordError
from genrm_cli.scored.parse_lines import parse_line
from genrm_cli.settings import settings_from
from genrm_cli.storage.encoding.records import Line

JUDGEBENCH = {
    "pair_id": "p1",
    "source": "law",
    "question": "Q?",
    "response_A": "a",
    "response_B": "b",
    "label": "A>B",
}
REWARDBENCH = {"id": 7, "subset": "chat", "prompt": "Q?", "chosen": "good", "rejected": "bad"}
RM_BENCH = {
    "id": "x",
    "domain": "math",
    "prompt": "Q?",
    "chosen": ["a", "b", "c"],
    "rejected": ["d", "e", "f"],
}


def user(text):
    """Make a user's message."""
    return {"role": "user", "content": text}


def assistant(text):
    """Make an assistant's message."""
    return {"role": "assistant", "content": text}


def answers_of(line):
    """Return the answers of the only pair of a line: the chosen one and the rejected one."""
    (pair,) = line.pairs
    return pair.chosen, pair.rejected


@pytest.mark.parametrize(
    ("record", "answers", "name", "category"),
    [
        (JUDGEBENCH, ("a", "b"), "p1", "law"),
        ({**JUDGEBENCH, "label": "B>A"}, ("b", "a"), "p1", "law"),
        ({**JUDGEBENCH, "response_A": [assistant("a")]}, ("a", "b"), "p1", "law"),
        (REWARDBENCH, ("good", "bad"), "7", "chat"),
        ({"prompt": "Q?", "chosen": "good", "rejected": "bad"}, ("good", "bad"), "line:12", None),
    ],
)
def test_a_line_names_the_better_answer_and_the_pair(record, answers, name, category):
    """By its label, or as chosen and rejected. Its id may be a number, and is that of the line
    without one; source and subset are categories.
    """
    line = parse_labelled(record, 12)
    pair = line.pairs[0].record
    assert (answers_of(line), pair.id, pair.category) == (answers, name, category)
    assert (line.conversation, line.principle) == ((Turn("user", "Q?"),), None)


def test_an_rm_bench_line_is_all_nine_pairs_of_one_item():
    """Each chosen style meets each rejected one; the pairs have names of their own and one item."""
    line = parse_labelled(RM_BENCH, 3)
    assert [(pair.record.id, pair.chosen, pair.rejected) for pair in line.pairs][:4] == [
        ("x#1-1", "a", "d"),
        ("x#1-2", "a", "e"),
        ("x#1-3", "a", "f"),
        ("x#2-1", "b", "d"),
    ]
    assert len(line.pairs) == len({pair.key for pair in line.pairs}) == 9
    assert {(pair.record.category, pair.record.item) for pair in line.pairs} == {
        ("math", line.pairs[0].key)
    }


def test_the_prompt_may_be_messages():
    """All turns are the conversation."""
    prompt = [{"role": "system", "content": "Be brief."}, user("Q?"), assistant("A?"), user("Q!")]
    line = parse_labelled({"prompt": prompt, "chosen": "good", "rejected": "bad"}, 1)
    assert [turn.role for turn in line.conversation] == ["system", "user", "assistant", "user"]


ANSWERS = {"chosen": [assistant("good")], "rejected": [assistant("bad")]}
WITH_PROMPT = {name: [user("Q?"), *answer] for name, answer in ANSWERS.items()}


@pytest.mark.parametrize(
    "record",
    [
        WITH_PROMPT,
        {**WITH_PROMPT, "prompt": "Q?"},
        {**WITH_PROMPT, "prompt": [user("Q?")]},
        {**ANSWERS, "prompt": [user("Q?")]},
        {
            "prompt": "Q?",
            "chosen": "<think>hm</think>good",
            "rejected": [assistant("hm</think>bad")],
        },
    ],
)
def test_answers_may_be_messages_and_hold_reasoning(record):
    """The last assistant turn is the answer; a prompt that stands in both places is shown once, and
    what stands in <think> never.
    """
    line = parse_labelled(record, 1)
    assert line.conversation == (Turn("user", "Q?"),)
    assert answers_of(line) == ("good", "bad")


def test_a_principle_of_the_line_is_kept():
    """The line may say what to judge by."""
    line = parse_labelled({**REWARDBENCH, "principle": "Be brief."}, 1)
    assert line.principle == "Be brief."


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"label": "A=B"}, "label"),
        ({"response_B": None}, "response_B is missing"),
        ({"question": " "}, "question is missing or empty"),
        ({"response_B": "a"}, "same text"),
        ({"prompt": None}, "prompt is missing"),
        ({"chosen": None}, "chosen is missing"),
        ({"rejected": {}}, "rejected"),
        ({"rejected": "good"}, "same text"),
        ({"chosen": [user("Q?")]}, "assistant turn"),
        (
            {"chosen": [user("P?"), assistant("good")], "rejected": [user("Q?"), assistant("bad")]},
            "different",
        ),
        (
            {"chosen": ["a", "b"], "rejected": [user("Q?")]},
            "rejected does not end in an assistant turn",
        ),
    ],
)
def test_a_bad_line_says_what_is_wrong(change, reason):
    """A line that leaves nothing to tell apart, or whose answers cannot be read, is refused with a
    reason.
    """
    with pytest.raises(UnreadableRecordError, match=reason):
        parse_labelled(
            {**(REWARDBENCH if change.keys() <= REWARDBENCH.keys() else JUDGEBENCH), **change}, 1
        )


def test_another_shape_is_refused_with_what_was_expected():
    """The reason names the fields of all shapes."""
    with pytest.raises(UnreadableRecordError, match=r"response_A.*chosen"):
        parse_labelled({"prompt": "Q?", "completion": "a"}, 1)


TEXTS = [
    "<think>a</think>b",
    "b<|im_end|>",
    " \n",
    '[{"role": "user", "content": "q"}]',
    '{"response": "x"}',
    '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
    "Human: a\n\nAssistant: b",
    "[INST] q [/INST] a",
    "\u2028\x00",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_file_job_reads_what_the_labelled_line_says(text, tmp_path):
    """An answer or a turn that looks like a format is still a text."""
    run = new_run(settings_from(judge="lexical"))
    turns = [{"role": role, "content": text} for role in ("system", "user", "assistant", "tool")]
    prompt = [user("Q?"), *turns, user("R?")]
    source = tmp_path / "pairs.jsonl"
    line = {"prompt": prompt, "chosen": text, "rejected": "other", "principle": text}
    source.write_text(json.dumps(line))
    with open_pairs(str(source), "-", run) as (_, task, _):
        raw = Path(task.uri).read_bytes().splitlines()
    labelled = parse_labelled(line, 1)
    settings = job_of(run).settings.input
    read = [parse_line(Line(1, each), settings)[2][0] for each in raw]
    for rollout, answer in zip(read, answers_of(labelled), strict=True):
        assert (rollout.prompt, rollout.answer) == (labelled.conversation, answer)
        assert rollout.principle == labelled.principle


def key_of(record, line=1):
    """Return the key of the first pair of a record."""
    return parse_labelled(record, line).pairs[0].key


def test_the_key_depends_on_the_content_and_on_nothing_else():
    """Name, category and line do not change the key; which answer is the better one does."""
    key = key_of(JUDGEBENCH)
    assert key_of({**JUDGEBENCH, "pair_id": "other", "source": "x"}, 9) == key
    assert key_of({"prompt": "Q?", "chosen": "a", "rejected": "b"}) == key
    assert key_of({**JUDGEBENCH, "label": "B>A"}) != key
    assert key_of({**JUDGEBENCH, "question": "R?"}) != key
