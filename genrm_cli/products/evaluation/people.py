"""People's labels of pairs beside the verdicts of a judge.

    {"pair": "1f0c...", "rater": "ann", "label": "chosen"}

Only the first pair of each line counts, since pairs of one line depend on each other."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal

from msgspec import Struct

from genrm_cli.errors import InputError
from genrm_cli.products.evaluation.accuracy import EVEN, PairShare, share_of_items
from genrm_cli.products.evaluation.pair_records import PairRecord, credit_of_lead
from genrm_cli.storage.source import Source
from genrm_cli.typed_json import parse_json

_VALUES = {"chosen": 1.0, "tie": 0.5, "rejected": 0.0}

Labels = Mapping[str, Mapping[str, float]]
"""By pair and rater, 1 for the chosen answer, 0 for the other one, 0.5 for a tie."""


class PersonLabel(Struct, frozen=True, kw_only=True):
    """One person's label of a pair.

    Attributes:
        pair: key or id of the pair.
        label: the better answer. A line without rater and label waits for them.
    """

    pair: str
    rater: str | None
    label: Literal["chosen", "rejected", "tie"] | None


class PeopleQuality(Struct, frozen=True, kw_only=True):
    """What people's labels say about a judge, and about each other.

    Attributes:
        pairs: those that people labelled and the judge decided.
        raters_equal: share of labels that are equal, over all two raters of a pair.
        judge_equal: share of pairs on which judge and most people agree, ties included.
        chosen_wins: how often people prefer the answer called chosen; a tie counts half.
    """

    raters: tuple[str, ...]
    labels: int
    pairs: int
    raters_equal: PairShare
    judge_equal: PairShare
    chosen_wins: PairShare


def read_labels(source: Source, pairs: Iterable[PairRecord]) -> Labels:
    """Read a file of labels of these pairs.

    Raises:
        InputError: a line is not a label, names none of the pairs, or contradicts another one of
            its rater; or no line is complete.
    """
    keys: dict[str, str] = {}
    for pair in pairs:
        if pair.places == (0, 0):  # the only pair of its line that people label
            keys |= {pair.id: pair.item, pair.item: pair.item}
    given = defaultdict[str, dict[str, float]](dict)
    for line in source.iter_lines():
        where = f"{source.uri}: line {line.number}"
        try:
            label = parse_json(PersonLabel, line.raw)
        except ValueError as error:
            raise InputError(
                f"{where}: not a label ({error}); expected pair, rater, and label: chosen, "
                "rejected or tie"
            ) from error
        if label.rater is None or label.label is None:
            continue
        key = keys.get(label.pair)
        if key is None:
            raise InputError(
                f"{where}: {label.pair!r} is not a pair of the input; "
                "the result of `genrm eval` has their ids"
            )
        value = _VALUES[label.label]
        if given[key].setdefault(label.rater, value) != value:
            raise InputError(
                f"{where}: {label.rater!r} labels {label.pair!r} a second time, differently; "
                "keep one label"
            )
    if not given:
        raise InputError(f"{source.uri}: no line has a rater and a label; name them in each line")
    return given


def people_quality(pairs: Sequence[PairRecord], labels: Labels) -> PeopleQuality:
    """Compare a judge with people's labels of its pairs."""
    results = {pair.item: pair.result for pair in pairs if pair.places == (0, 0)}
    people = {
        item: fmean(given.values()) for item, given in labels.items() if results[item] is not None
    }
    return PeopleQuality(
        raters=tuple(sorted({rater for given in labels.values() for rater in given})),
        labels=sum(map(len, labels.values())),
        pairs=len(people),
        raters_equal=share_of_items(
            (item, float(one == other))
            for item, given in labels.items()
            for one, other in combinations(given.values(), 2)
        ),
        judge_equal=share_of_items(
            (item, float(credit_of_lead(mean - EVEN) == results[item]))
            for item, mean in people.items()
        ),
        chosen_wins=share_of_items(people.items()),
    )
