"""Win rates from people's labels beside the verdicts of a judge."""

import json
from random import Random

import pytest

from genrm_cli.products.ranking.outcomes import OutcomeTable
from genrm_cli.products.ranking.people_labels import PolicyLabels, labelled_win_rates
from genrm_cli.verdicts import Verdict


def contest(seed=0, truth=0.65, right=0.9):
    """Return outcomes of policies `old` and `new`, and what people think of each prompt."""
    random = Random(seed)
    table = OutcomeTable(["old", "new"])
    people = []
    for _ in range(400):
        table.begin_prompt({0: 10.0, 1: 10.0})
        wins = random.random() < truth
        people.append(wins)
        said = wins if random.random() < right else not wins
        table.add(1, 0, 0.0, Verdict(4, 2, 2) if said else Verdict(2, 4, 5))
        table.add(0, 1, 0.0, Verdict(2, 4, 5) if said else Verdict(4, 2, 2))
    return table.outcomes(), people


def labels_of(people, count, *, is_random=False):
    """Return one person's labels of the first prompts."""
    labels = PolicyLabels(is_random=is_random)
    for number in range(count):
        labels.given[0, 1][number]["ann"] = float(not people[number])
    return labels


def test_few_labels_correct_many_verdicts():
    """The interval holds the share by people over all prompts, and is narrower than that of the
    labels alone.
    """
    outcomes, people = contest()
    labels = labels_of(people, 80, is_random=True)
    (found,) = labelled_win_rates(outcomes, range(400), labels)
    assert (found.a, found.b, found.prompts) == ("old", "new", 80)
    assert found.people is not None
    assert found.people.low < 1 - sum(people) / len(people) < found.people.high
    assert found.people.narrower < 0.85


def test_labels_of_unknown_origin_stand_alone():
    """Nothing says that they were drawn at random: verdicts narrow nothing; three say nothing."""
    outcomes, people = contest(1)
    (found,) = labelled_win_rates(outcomes, range(400), labels_of(people, 40))
    assert (found.is_random, found.people.weight) == (False, 0)
    assert found.people.mean == pytest.approx(1 - sum(people[:40]) / 40)
    (few,) = labelled_win_rates(outcomes, range(400), labels_of(people, 3))
    assert few.people is None


LABEL = {"prompt": "Q0?", "a": "new", "b": "old", "rater": "ann", "label": "a", "drawn": "random"}


def write_policies(genrm):
    """Write the responses of two policies; return what ranks them."""
    for name, text in (("old", "short"), ("new", "a longer answer {n}")):
        lines = [{"prompt": f"Q{n}?", "completion": text.format(n=n)} for n in range(8)]
        genrm.write(f"{name}.jsonl", lines)
    return "rank", "old.jsonl", "new.jsonl", "--labels", "labels.jsonl"


def test_rank_takes_labels(genrm, call):
    """From a file, and says what they show, whichever policy a label calls `a`."""
    command = (*write_policies(genrm), "--offline")
    swapped = {**LABEL, "a": "old", "b": "new", "label": "b", "rater": "ben"}
    prompts = [{"prompt": f"Q{n}?"} for n in range(5)]
    genrm.write("labels.jsonl", [each | one for one in prompts for each in (LABEL, swapped)])
    (found,) = json.loads(call(*command, "--json").ended(0).out)["labelled"]
    assert (found["prompts"], found["is_random"], found["people"]["mean"]) == (5, True, 1.0)
    assert b"by people, new beats old in" in call(*command).ended(0).out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label": "c"}, "line 2: not a label"),
        ({"label": "b"}, "line 2: 'ann' labels this pair a second time, differently"),
        ({"a": "x"}, "line 2: the ranking does not compare 'x' with 'old'"),
        ({"a": "old"}, "line 2: the ranking does not compare 'old' with 'old'"),
        ({"prompt": "Z?"}, "line 2: the prompt 'Z?' is not in the ranking"),
        (None, "labels.jsonl: no labels"),
    ],
)
def test_wrong_labels_are_refused_before_any_call(change, said, genrm, call, judge_server):
    """The file and the line are named, and the judge is not asked."""
    command = write_policies(genrm)
    genrm.write("labels.jsonl", [] if change is None else [LABEL, LABEL | change])
    assert said in call(*command, *judge_server.flags, "--no-probe").ended(3).err
    assert judge_server.stats()["requests"] == 0
