"""People's labels of pairs beside the verdicts of a judge.

    {"pair": "1f0c...", "rater": "ann", "label": "chosen", "drawn": "random"}

Only the first pair of each line counts, since pairs of one line depend on each other."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Literal

from genrm_cli.errors import InputError
from genrm_cli.products.evaluation.accuracy import (
    PairRecord,
    PairShare,
    credit_of_lead,
    pair_result,
    share_of_items,
)
from genrm_cli.products.evaluation.pair_lines import LabelledPair
from genrm_cli.products.evaluation.prediction_powered import LabelledMean, prediction_powered
from genrm_cli.storage.source import Source
from genrm_cli.typed_json import parse_json

_EVEN = 0.5
_VALUES = {"chosen": 1.0, "tie": 0.5, "rejected": 0.0}

Origin = Literal["random", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonLabel:
    """One person's label of a pair.

    Attributes:
        pair: key or id of the pair.
        label: the better answer. A line without rater and label waits for them.
        drawn: `random` for pairs that the user drew at random from all.
    """

    pair: str
    rater: str | None
    label: Literal["chosen", "rejected", "tie"] | None
    drawn: Literal["random"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleQuality:
    """What people's labels say about a judge, and about each other.

    Attributes:
        pairs: that somebody labelled and the judge decided.
        origin: how these pairs were chosen. If it is unknown, verdicts cannot narrow an interval,
            and the labelled pairs stand for themselves only.
        raters_equal: share of labels that are equal, over all two raters of a pair.
        judge_equal: share of pairs on which judge and most people agree, ties included.
        judge_accuracy: how often the judge is right by people, over all pairs; None for fewer than
            four labels.
        chosen_wins: how often people prefer the answer called chosen, over all pairs; None for
            fewer than four labels.
    """

    raters: tuple[str, ...]
    labels: int
    pairs: int
    origin: Origin
    raters_equal: PairShare
    judge_equal: PairShare
    judge_accuracy: LabelledMean | None
    chosen_wins: LabelledMean | None


@dataclass(slots=True)
class PeopleLabels:
    """What people said about the first pair of each line.

    Attributes:
        given: by pair and rater, 1 for the chosen answer, 0 for the other one, 0.5 for a tie.
    """

    given: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    origin: Origin = "random"


def read_labels(source: Source, pairs: Iterable[LabelledPair]) -> PeopleLabels:
    """Read a file of labels of these pairs.

    Raises:
        InputError: a line is not a label, names none of the pairs, or contradicts another one of
            its rater; or no line is complete.
    """
    keys: dict[str, str] = {}
    for pair in pairs:
        if pair.places == (0, 0):  # the only pair of its line that people label
            keys |= {pair.id: pair.item, pair.item: pair.item}
    found = PeopleLabels()
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
        if found.given[key].setdefault(label.rater, value) != value:
            raise InputError(
                f"{where}: {label.rater!r} labels {label.pair!r} a second time, differently; "
                "keep one label"
            )
        if label.drawn is None:
            found.origin = "unknown"
    if not found.given:
        raise InputError(f"{source.uri}: no line has a rater and a label; name them in each line")
    return found


def people_quality(records: Sequence[PairRecord], labels: PeopleLabels) -> PeopleQuality:
    """Compare a judge with people's labels of its pairs."""
    pairs = {each.item: each for each in records if each.places == (0, 0)}
    results = {key: pair_result(record) for key, record in pairs.items()}
    decided = {key: result for key, result in results.items() if result is not None}
    # A judge whose orders agree is right more often.
    agrees = {key: float(pairs[key].has_both and not pairs[key].is_flipped) for key in decided}
    people = {key: fmean(given.values()) for key, given in labels.given.items() if key in decided}
    right = {key: 1 - abs(decided[key] - mean) for key, mean in people.items()}
    is_random = labels.origin == "random"
    return PeopleQuality(
        raters=tuple(sorted({rater for given in labels.given.values() for rater in given})),
        labels=sum(map(len, labels.given.values())),
        pairs=len(people),
        origin=labels.origin,
        raters_equal=share_of_items(
            (key, float(one == other))
            for key, given in labels.given.items()
            for one, other in combinations(given.values(), 2)
        ),
        judge_equal=share_of_items(
            (key, float(credit_of_lead(mean - _EVEN) == decided[key]))
            for key, mean in people.items()
        ),
        judge_accuracy=_estimate(right, agrees if is_random else {}),
        chosen_wins=_estimate(people, decided if is_random else {}),
    )


def _estimate(truths: Mapping[str, float], verdicts: Mapping[str, float]) -> LabelledMean | None:
    """Return the mean of what labels tell of some pairs, over all pairs that verdicts tell of; over
    the labelled ones without verdicts.
    """
    others = [verdict for key, verdict in verdicts.items() if key not in truths]
    return prediction_powered(
        [*truths.values()], [verdicts.get(key, 0.0) for key in truths], others
    )
