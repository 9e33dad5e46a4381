"""Win rates from people's labels beside the verdicts of a judge."""

import json
import re
from random import Random

import pytest

from genrm_cli.errors import InputError
from genrm_cli.ranking.outcomes import OutcomeTable
from genrm_cli.ranking.people_labels import PolicyLabel, labelled_win_rates
from genrm_cli.verdicts import Verdict

PROMPTS = [f"Q{number}?" for number in range(400)]


def contest(seed=0, truth=0.65, right=0.9):
    """Return outcomes of policies `old` and `new`, and what people think of each prompt."""
    random = Random(seed)
    table = OutcomeTable(["old", "new"])
    people = []
    for _ in PROMPTS:
        table.begin_prompt({0: 10.0, 1: 10.0})
        wins = random.random() < truth
        people.append(wins)
        said = wins if random.random() < right else not wins
        table.add(1, 0, 0.0, Verdict(4, 2, 2) if said else Verdict(2, 4, 5))
        table.add(0, 1, 0.0, Verdict(2, 4, 5) if said else Verdict(4, 2, 2))
    return table.outcomes(), people


def labels_of(people, count, *, drawn=None):
    """Return one person's labels of the first prompts: policy `new` is `a`."""
    return [
        PolicyLabel(
            prompt=PROMPTS[number],
            a="new",
            b="old",
            rater="ann",
            label="a" if people[number] else "b",
            drawn=drawn,
        )
        for number in range(count)
    ]


def test_few_labels_correct_many_verdicts():
    """The interval holds the share by people over all prompts, and is narrower than that of the
    labels alone; the rate is of the first policy, whatever the labels call `a`.
    """
    outcomes, people = contest()
    (found,) = labelled_win_rates(outcomes, PROMPTS, labels_of(people, 80, drawn="random"), "l")
    assert (found.a, found.b, found.prompts) == ("old", "new", 80)
    assert found.people is not None
    assert found.people.low < 1 - sum(people) / len(people) < found.people.high
    assert found.people.narrower < 0.85


def test_labels_of_unknown_origin_stand_alone():
    """Nothing says that they were drawn at random: verdicts narrow nothing; three say nothing."""
    outcomes, people = contest(1)
    (found,) = labelled_win_rates(outcomes, PROMPTS, labels_of(people, 40), "l")
    assert found.is_random is False
    assert found.people is not None
    assert found.people.weight == 0
    assert found.people.mean == pytest.approx(1 - sum(people[:40]) / 40)
    (few,) = labelled_win_rates(outcomes, PROMPTS, labels_of(people, 3), "l")
    assert few.people is None


def test_a_label_of_something_else_is_an_error():
    """A policy or a prompt that is not in the ranking is named."""
    outcomes, people = contest(2)
    (label,) = labels_of(people, 1)
    for wrong, named in (({"a": "x"}, "'x'"), ({"prompt": "Z?"}, "the prompt 'Z?'")):
        values = {name: getattr(label, name) for name in ("prompt", "a", "b", "rater", "label")}
        with pytest.raises(InputError, match=re.escape(f"l: {named} is not in the ranking")):
            labelled_win_rates(outcomes, PROMPTS, [PolicyLabel(**values | wrong)], "l")


def test_rank_takes_labels(genrm, call):
    """From a file, and says what they show; a line that is no label is named."""
    for name, text in (("old", "short"), ("new", "a longer answer {n}")):
        genrm.write(
            f"{name}.jsonl",
            [{"prompt": f"Q{n}?", "completion": text.format(n=n)} for n in range(8)],
        )
    label = {"a": "new", "b": "old", "rater": "ann", "label": "a", "drawn": "random"}
    genrm.write("labels.jsonl", [{"prompt": f"Q{n}?", **label} for n in range(5)])
    flags = ("rank", "old.jsonl", "new.jsonl", "--offline", "--labels")
    (found,) = json.loads(call(*flags, "labels.jsonl", "--json").ended(0).out)["labelled"]
    assert found["prompts"] == 5
    assert found["is_random"] is True
    assert b"by people, new beats old in" in call(*flags, "labels.jsonl").ended(0).out
    assert "old.jsonl: line 1: not a label" in call(*flags, "old.jsonl").ended(3).err
