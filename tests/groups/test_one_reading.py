"""What is measured is what is shown: one reading of a response serves judges, lengths, clusters and
copies.
"""

import copy
import json
from collections import Counter
from pathlib import Path

import pytest
from scored_here import LEXICAL, completions, settings_of

from genrm_cli.groups.asking.begin import begin_group
from genrm_cli.groups.asking.shown import shown_to_judges
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.group import Group
from genrm_cli.rollouts.formats import FORMATS, recognise
from genrm_cli.rollouts.rollout import Text

TESTS = Path(__file__).parents[1]
WRITERS = (TESTS.parent / "sample_data/writers.jsonl").read_text(encoding="utf-8").splitlines()
RECORDS = {recognise(record).name: record for record in map(json.loads, WRITERS)} | json.loads(
    (TESTS / "rollouts/valid_records.json").read_bytes()
)
PLAN = compile_plan(settings_of(LEXICAL))
TAGGED = (
    "{}</think>.",
    "{}</thinking>\n.",
    "{}[/THINK].",
    "{}<|think_end|>.",
    "Hm.</think>{}",
    "<think>Hm.</think>{}",
    "[THINK]Hm.[/THINK]{}",
    "<|think_start|>Hm.<|think_end|><|answer_start|>{}<|answer_end|>",
    "analysisWe need this.assistantfinal{}",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{}",
)


def with_text(value, old, new):
    """Return a JSON value in which a text is replaced."""
    if isinstance(value, dict):
        return {key: with_text(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [with_text(each, old, new) for each in value]
    return new if value == old else value


def rollout_of(format_, record, old, new):
    """Read the first rollout of a record whose answer is another text."""
    return FORMATS[format_].read(with_text(copy.deepcopy(record), old, new))[0]


@pytest.mark.parametrize("format_", RECORDS)
def test_what_is_measured_is_what_is_shown(format_):
    """In every format, beside any number of responses with a closing tag of their own."""
    record = RECORDS[format_]
    rollout = FORMATS[format_].read(copy.deepcopy(record))[0]
    said = [item.text for item in rollout.response or () if isinstance(item, Text)]
    answer = said[-1]
    for tagged in TAGGED:
        for count in (1, 2, 4):
            texts = [tagged.format(f"{answer} {number}.") for number in range(count)]
            texts += [f"{answer} Also {number}." for number in range(4 - count)]
            rollouts = [rollout_of(format_, record, answer, text) for text in texts]
            group = Group("key", rollouts)
            judged = begin_group(group, PLAN)
            view = shown_to_judges(group, range(4), PLAN, Counter())
            for settled, shape, shown in zip(
                group.rollouts, judged.shapes, view.responses, strict=True
            ):
                words = [each.text for each in settled.response if isinstance(each, Text)]
                if view.view == "answer":
                    assert shape.answer_chars == len(shown.strip()), (tagged, shown)
                assert shape.answer_chars == len("\n\n".join(filter(str.strip, words)).strip())
                assert all(each.strip("\n") in shown for each in words), (tagged, shown)
                assert len(settled.reasoning.strip()) == shape.reasoning_chars
                assert settled.reasoning == "" or settled.reasoning not in shown


def test_a_closing_tag_at_the_end_of_an_answer_gains_nothing(score):
    """Neither the bonuses for the shortest texts, nor a smaller cluster."""
    texts = [f"{word} is the capital, as everybody knows." for word in ("Paris", "Lyon", "Nice")]
    terms = "group_answer_length_penalty_coeff = 0.5\nanswer_bonus = 0.5\nreasoning_bonus = 0.5\n"
    settings = f"{LEXICAL}[diversity]\n[shaping]\n{terms}"
    plain = score(completions(*texts), settings)
    tagged = score(completions(f"{texts[0]}</think>.", *texts[1:]), settings)
    lengths = [each["genrm"]["adjustments"] for each in (plain.lines[0], tagged.lines[0])]
    assert tagged.lines[0]["genrm"]["adjustments"]["reasoning_bonus"] == 0
    assert lengths[1]["answer_length"] <= lengths[0]["answer_length"]


def test_invisible_and_look_alike_characters_avoid_no_cluster(score):
    """Copies with variation selectors are copies; look-alikes are near-duplicates."""
    text = "A fox crosses the river and comes home late at night."
    hidden = "".join(f"{sign}{chr(0xE0100 + place)}" for place, sign in enumerate(text))
    alike = text.replace("o", "\u043e").replace("e", "\u0435").replace("a", "\u0430")
    texts = [text, hidden, alike, "Something else entirely, of another length."]
    scored = score(completions(*texts), LEXICAL + "[diversity]\n")
    assert [line["genrm"].get("equal_to") for line in scored.lines] == [None, 0, None, None]
    assert [line["genrm"]["diversity"]["size"] for line in scored.lines] == [3, 3, 3, 1]


def test_characters_that_an_answer_is_about_make_no_copy(score):
    """An entity and its sign, a Greek and a Latin letter, an accent: one of two may be wrong."""
    pairs = [("&lt;", "<"), ("\u03bd", "v"), ("x\u0302 = 5", "x = 5"), ("%41", "A")]
    for one, other in pairs:
        scored = score(completions(one, other, "Neither of the two."), LEXICAL)
        assert [line["genrm"].get("equal_to") for line in scored.lines] == [None] * 3
