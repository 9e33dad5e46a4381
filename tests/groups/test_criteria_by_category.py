"""`[criteria]`: what a judge is told by the category of a line."""

import json

import pytest
from scored_components import completions, judge, last_messages, score, settings_of

from genrm_cli.errors import UsageError
from genrm_cli.groups.compile import compile_plan
from genrm_cli.rollouts.reading.chosen_fields import principle_by_category

LONG = "Because of the tide. " * 12
SHORT = "Because."
CRITERIA = "[criteria]\nsentences = { maths = 'Only the answer.', chat = 'Tone counts.' }\n"


def shown(server) -> list[str]:
    """Return those of our sentences that the judge was shown, in order, and how often."""
    texts = "\n".join(last_messages(server))
    return sorted(
        text
        for text in ("Only the answer.", "Tone counts.", "Mine.")
        for _ in range(texts.count(f"BEGIN EVALUATION PLAN ===]\n{text}\n"))
    )


def test_a_line_is_judged_by_the_sentence_of_its_category(tmp_path, judge_server):
    """The principle of the line goes before it; a category without a sentence has none."""
    lines = [
        *completions(LONG, SHORT, prompt="a", category=["maths"] * 2),
        *completions(LONG, SHORT, prompt="b", category=["other"] * 2),
        *completions(LONG, SHORT, prompt="c", category=["chat"] * 2, principle=["Mine."] * 2),
    ]
    score(tmp_path, lines, judge(judge_server) + CRITERIA)
    assert shown(judge_server) == [*["Mine."] * 2, *["Only the answer."] * 2]


def test_eval_asks_by_category_as_score_does(genrm, call, judge_server):
    """The field is that of the benchmark, here `subset`; other criteria are another question."""
    pairs = [{"prompt": "Q?", "chosen": "right", "rejected": "wrong", "subset": "maths"}]
    genrm.write("pairs.jsonl", pairs)
    (genrm.folder / "c.toml").write_text(CRITERIA, encoding="utf-8")
    flags = ("eval", "pairs.jsonl", "--base-url", judge_server.base_url, "--model", "m")
    flags = (*flags, "--profile", "nemotron-plain", "--no-probe", "--json")
    assert json.loads(call(*flags).ended(0).out)["calls"] == 2
    assert shown(judge_server) == []
    done = call(*flags, "--config", "c.toml").ended(0)
    assert json.loads(done.out)["calls"] == 2
    assert shown(judge_server) == ["Only the answer."] * 2


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"category": "maths"}, "M"),
        ({"category": None, "subset": "maths"}, "M"),
        ({"category": ["x", "maths"]}, "M"),
        ({"category": "x", "subset": "maths"}, None),
        ({"category": {"maths": 1}}, None),
        ({"category": 7}, None),
        ({}, None),
    ],
)
def test_the_first_field_that_a_line_has_names_the_category(record, expected):
    """A list counts by its first entry with a sentence."""
    assert principle_by_category(record, ["category", "subset"], {"maths": "M"}) == expected


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[criteria]\nfields = ['x']\n", "sentences is missing"),
        ("[criteria]\nsentences = { a = 1 }\n", "is not text"),
        ("[criteria]\nsentence = {}\n", "unknown key 'sentence'"),
        ("compat = 'nemo-gym'\n" + CRITERIA, "has no effect"),
    ],
)
def test_a_table_without_effect_is_refused(toml, message):
    """The message names what is wrong before anything is asked."""
    with pytest.raises(UsageError, match=message):
        compile_plan(settings_of("judge = 'lexical'\n" + toml))
