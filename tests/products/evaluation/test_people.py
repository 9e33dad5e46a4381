"""People's labels beside the verdicts of a judge."""

import json
from types import SimpleNamespace

import pytest
from judged_pairs import judged_pair

from genrm_cli.products.evaluation.people import people_quality, read_labels

RIGHT = ("right", "right")
WRONG = ("wrong", "wrong")


def key_of(number):
    """Return the key of a pair."""
    return f"{number:016x}"


def label_of(pair, label, rater="ann"):
    """Return a line of a file of labels."""
    return {"pair": pair, "rater": rater, "label": label}


def labels_of(records, labels):
    """Read labels of these pairs."""
    source = SimpleNamespace(
        uri="l",
        iter_lines=lambda: (
            SimpleNamespace(raw=json.dumps(label).encode(), number=number)
            for number, label in enumerate(labels, 1)
        ),
    )
    return read_labels(source, records)  # type: ignore[arg-type]


def test_raters_are_compared_with_each_other_and_most_of_them_with_the_judge():
    """Three raters of a pair are three comparisons; a majority decides."""
    records = [judged_pair(*(RIGHT if n else WRONG), key_of(n)) for n in range(4)]
    labels = [label_of(key_of(n), "chosen", rater) for n in range(4) for rater in ("ann", "bo")]
    labels += [label_of(key_of(0), "rejected", "cy")]
    found = people_quality(records, labels_of(records, labels))
    assert found.raters == ("ann", "bo", "cy")
    assert (found.raters_equal.pairs, found.raters_equal.value) == (6, 4 / 6)
    assert (found.judge_equal.pairs, found.judge_equal.value) == (4, 3 / 4)
    assert found.chosen_wins.value == pytest.approx((3 + 2 / 3) / 4)


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


def test_labels_are_read_beside_the_verdicts(genrm, call):
    """An incomplete line waits; a file of pairs is no file of labels."""
    pairs = [
        {"id": n, "prompt": f"Q{n}?", "chosen": "word " * (n % 7 + 2), "rejected": "word"}
        for n in range(40)
    ]
    genrm.write("pairs.jsonl", pairs)
    lines = [label_of(str(n), "chosen") for n in range(39)]
    genrm.write("labels.jsonl", [*lines, {"pair": "39", "rater": None, "label": None}])
    flags = ("eval", "pairs.jsonl", "--offline", "--labels")
    people = json.loads(call(*flags, "labels.jsonl", "--json").ended(0).out)["people"]
    assert (people["labels"], people["pairs"]) == (39, 39)
    done = call(*flags, "labels.jsonl").ended(0)
    assert b"people: 39 labels by 1 rater of 39 pairs; the judge agrees with most" in done.out
    assert b"people prefer the chosen answer in 100.0 % (91.0 to 100.0)" in done.out
    assert "pairs.jsonl: line 1: not a label" in call(*flags, "pairs.jsonl").ended(3).err
