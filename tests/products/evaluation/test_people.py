"""People's labels beside the verdicts of a judge."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from genrm_process import read_lines
from judged_pairs import judged_pair

from genrm_cli.json_types import Record
from genrm_cli.products.evaluation.accuracy import PairRecord, Preference
from genrm_cli.products.evaluation.people import (
    PeopleLabels,
    choose_to_label,
    people_quality,
    read_labels,
    shows_chosen_first,
    stratum_of,
)

RIGHT = (Preference.RIGHT, Preference.RIGHT)
SPLIT = (Preference.RIGHT, Preference.WRONG)


def key_of(number: int) -> str:
    """Return the key of a pair."""
    return f"{number:016x}"


def label_of(pair: str, label: str, rater: str = "ann", **more: str | None) -> Record:
    """Return a line of a file of labels."""
    return {"pair": pair, "rater": rater, "label": label, **more}


def labels_of(records: Sequence[PairRecord], labels: Sequence[Record]) -> PeopleLabels:
    """Read labels of these pairs."""
    source = SimpleNamespace(
        uri="l",
        iter_lines=lambda: (
            SimpleNamespace(raw=json.dumps(label).encode(), number=number)
            for number, label in enumerate(labels, 1)
        ),
    )
    pairs = [
        SimpleNamespace(id=each.id, item=each.item, places=(each.chosen_index, each.rejected_index))
        for each in records
    ]
    return read_labels(source, pairs)  # type: ignore[arg-type]


def test_answers_are_shown_in_either_order():
    """Half of the pairs show the chosen answer as A, and a label is read as it was shown."""
    keys = [key_of(number) for number in range(20)]
    assert sum(map(shows_chosen_first, keys)) == 10
    records = [judged_pair(*RIGHT, key) for key in keys]
    labels = [label_of(key, "A" if shows_chosen_first(key) else "B") for key in keys]
    found = people_quality(records, labels_of(records, labels))
    assert found.judge_equal == 1
    assert found.chosen_wins is not None
    assert found.chosen_wins.mean == 1


def test_the_next_labels_are_drawn_where_verdicts_are_weak():
    """More than their share of pairs whose orders disagree, none that has a label, the same ones
    again.
    """
    records = [judged_pair(*(SPLIT if n < 100 else RIGHT), key_of(n)) for n in range(400)]
    labelled = labels_of(records, [label_of(key_of(n), "tie") for n in range(50)])
    chosen = choose_to_label(records, labelled)
    assert len(set(chosen)) == 100
    assert chosen == choose_to_label(records, labelled)
    assert not {key_of(n) for n in range(50)} & set(chosen)
    weak = sum(int(key, 16) < 100 for key in chosen)
    assert weak > 100 * 50 / 350


def test_labels_of_disagreements_do_not_bias_the_estimate():
    """A judge right in 92 % of agreeing pairs and in half of the others is right in 81.5 % of all;
    the labels alone say far less, as most are of pairs on which the orders disagree.
    """
    random = Random(3)
    records = []
    people = {}
    for number in range(2000):
        agrees = random.random() < 0.75
        records.append(judged_pair(*(RIGHT if agrees else SPLIT), key_of(number)))
        # Split verdicts are ties of the judge: a person's preference is half right.
        people[key_of(number)] = "chosen" if random.random() < 0.92 else "rejected"
    chosen = choose_to_label(records, PeopleLabels())
    strata = {each.item: stratum_of(each) for each in records}
    labels = [label_of(key, people[key], stratum=strata[key]) for key in chosen]
    found = people_quality(records, labels_of(records, labels))
    assert found.origin == "strata"
    assert found.judge_accuracy is not None
    assert found.judge_accuracy.low < 0.75 * 0.92 + 0.25 * 0.5 < found.judge_accuracy.high
    unknown = labels_of(records, [label_of(key, people[key]) for key in chosen])
    alone = people_quality(records, unknown)
    assert alone.origin == "unknown"
    assert alone.judge_accuracy is not None
    assert alone.judge_accuracy.weight == 0


def test_an_undefined_alpha_says_why():
    """One category only leaves nothing beyond chance."""
    records = [judged_pair(*RIGHT, key_of(n)) for n in range(8)]
    ties = labels_of(records, [label_of(key_of(0), "tie", rater) for rater in "ab"])
    alike = people_quality(records, ties).raters_alpha
    assert alike is not None
    assert (alike.value, alike.reason) == (None, "one category only")


def test_raters_have_an_alpha_and_the_judge_a_kappa():
    """Agreement is that of the answers as they were shown, so that raters who always prefer the
    chosen answer agree beyond chance.
    """
    records = [judged_pair(*RIGHT, key_of(n)) for n in range(30)]
    labels = [label_of(key_of(n), "chosen", rater) for n in range(30) for rater in ("ann", "bo")]
    found = people_quality(records, labels_of(records, labels))
    assert found.raters == ("ann", "bo")
    assert found.raters_alpha is not None
    assert found.raters_alpha.value == pytest.approx(1)
    assert found.judge_kappa.value == pytest.approx(1)


def test_labels_that_contradict_each_other_or_the_input_are_refused(genrm, call, judge_server):
    """Before the first call, with the line; equal labels of one rater count once."""
    genrm.write("pairs.jsonl", [{"id": "p", "prompt": "Q?", "chosen": "right", "rejected": "no"}])
    for labels, message in (
        ([], "no line has a rater and a label"),
        ([label_of("x", "tie")], "line 1: 'x' is not a pair of the input"),
        ([label_of("p", "chosen"), label_of("p", "tie")], "line 2: 'ann' labels 'p' a second time"),
    ):
        genrm.write("labels.jsonl", labels)
        done = call("eval", "pairs.jsonl", *judge_server.flags, "--labels", "labels.jsonl").ended(3)
        assert message in done.err
    assert judge_server.stats()["requests"] == 0
    records = [judged_pair(*RIGHT, key_of(1))]
    twice = labels_of(records, [label_of(key_of(1), "chosen")] * 2)
    assert people_quality(records, twice).labels == 1


def test_a_file_to_label_comes_back_as_labels(genrm, call):
    """`--to-label` writes lines that people complete; `--labels` reads them, and an incomplete line
    waits.
    """
    pairs = [
        {"id": n, "prompt": f"Q{n}?", "chosen": "word " * (n % 7 + 2), "rejected": "word"}
        for n in range(40)
    ]
    genrm.write("pairs.jsonl", pairs)
    call("eval", "pairs.jsonl", "--offline", "--to-label", "next.jsonl").ended(0)
    lines = read_lines(Path(genrm.folder) / "next.jsonl")
    assert len(lines) == 40
    assert {line["stratum"] for line in lines} == {"agree"}
    for line in lines[:-1]:
        line |= {"rater": "ann", "label": "A" if len(line["A"]) > len(line["B"]) else "B"}
    genrm.write("labels.jsonl", lines)
    done = call("eval", "pairs.jsonl", "--offline", "--labels", "labels.jsonl", "--json").ended(0)
    people = json.loads(done.out)["people"]
    assert (people["labels"], people["pairs"], people["origin"]) == (39, 39, "strata")
    done = call("eval", "pairs.jsonl", "--offline", "--labels", "labels.jsonl").ended(0)
    assert b"people: 39 labels by 1 rater of 39 pairs" in done.out
    done = call("eval", "pairs.jsonl", "--offline", "--labels", "pairs.jsonl")
    assert "pairs.jsonl: line 1: not a label" in done.ended(3).err
