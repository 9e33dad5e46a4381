"""People's labels of pairs beside the verdicts of a judge.

    {"pair": "1f0c...", "rater": "ann", "label": "A", "stratum": "agree"}

`--to-label` writes such lines without rater and label: pairs drawn at random among those whose
orders agree and among those whose orders do not, of which it takes more than their share, since
verdicts err there. The estimates weight both strata by their size, so that nothing is biased. Only
the first pair of each line counts, since pairs of one line depend on each other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Literal

from genrm_cli.errors import InputError
from genrm_cli.products.evaluation.accuracy import PairRecord, credit_of_lead, pair_result
from genrm_cli.products.evaluation.agreement import (
    RaterAgreement,
    agreement_of,
    cohen_kappa,
    krippendorff_alpha,
)
from genrm_cli.products.evaluation.pair_lines import LabelledPair
from genrm_cli.products.evaluation.prediction_powered import (
    LabelledMean,
    LabelStratum,
    plan_labels,
    prediction_powered,
    stratified,
)
from genrm_cli.scored.json_form import parse_json
from genrm_cli.storage.source import Source

AGREE = "agree"
DISAGREE = "disagree"
STRATA = (AGREE, DISAGREE)
_NO_STRATUM = ""  # of a pair that was judged in one order only
# Expected shares of wrong verdicts; only the plan of labels depends on them, no estimate.
_ERROR_RATES = (0.1, 0.5)
_EVEN = 0.5
_TO_LABEL = 100  # an afternoon of one person
_SEED = 0  # the same pairs again for the same verdicts

Origin = Literal["strata", "random", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonLabel:
    """One person's label of a pair.

    Attributes:
        pair: key or id of the pair.
        label: `A`, `B` or `tie`, as `--to-label` shows the answers; or `chosen` or `rejected`. A
            line without rater and label waits for them.
        stratum: as `--to-label` wrote it.
        drawn: `random` for pairs that the user drew at random from all.
    """

    pair: str
    rater: str | None
    label: Literal["A", "B", "tie", "chosen", "rejected"] | None
    stratum: Literal["agree", "disagree"] | None = None
    drawn: Literal["random"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleQuality:
    """What people's labels say about a judge, and about each other.

    Attributes:
        pairs: that somebody labelled and the judge decided.
        origin: how these pairs were chosen. If it is unknown, verdicts cannot narrow an interval,
            and the labelled pairs stand for themselves only.
        raters_alpha: Krippendorff's alpha; None with one rater.
        judge_equal: share of pairs on which judge and most people agree, ties included.
        judge_kappa: Cohen's kappa of the judge and most people.
        judge_accuracy: how often the judge is right by people, over all pairs.
        chosen_wins: how often people prefer the answer called chosen, over all pairs.
    """

    raters: tuple[str, ...]
    labels: int
    pairs: int
    origin: Origin
    raters_alpha: RaterAgreement | None
    judge_equal: float | None
    judge_kappa: RaterAgreement
    judge_accuracy: LabelledMean | None
    chosen_wins: LabelledMean | None


@dataclass(slots=True)
class PeopleLabels:
    """What people said about the first pair of each line.

    Attributes:
        given: by pair and rater, 1 for the chosen answer, 0 for the other one, 0.5 for a tie.
        strata: of each pair, as its labels have it.
    """

    given: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    strata: dict[str, str | None] = field(default_factory=dict)
    origin: Origin = "unknown"


def read_labels(source: Source, pairs: Iterable[LabelledPair]) -> PeopleLabels:
    """Read a file of labels of these pairs.

    Raises:
        InputError: a line is not a label, names none of the pairs, or contradicts another one of
            its rater; or no line is complete.
    """
    keys: dict[str, str] = {}
    for pair in pairs:
        if pair.places == (0, 0):  # the only pair of its line that people see
            keys |= {pair.id: pair.item, pair.item: pair.item}
    found = PeopleLabels()
    labels = []
    for line in source.iter_lines():
        where = f"{source.uri}: line {line.number}"
        try:
            label = parse_json(PersonLabel, line.raw)
        except ValueError as error:
            raise InputError(
                f"{where}: not a label ({error}); expected pair, rater, and label: A, B or tie"
            ) from error
        if label.rater is None or label.label is None:
            continue
        key = keys.get(label.pair)
        if key is None:
            raise InputError(f"{where}: {label.pair!r} is not a pair of the input")
        value = _value_of(label, key)
        if found.given[key].setdefault(label.rater, value) != value:
            raise InputError(
                f"{where}: {label.rater!r} labels {label.pair!r} a second time, differently; "
                "keep one label"
            )
        found.strata[key] = label.stratum
        labels.append(label)
    if not labels:
        raise InputError(f"{source.uri}: no line has a rater and a label")
    if all(label.stratum is not None for label in labels):
        found.origin = "strata"
    elif all(label.drawn == "random" for label in labels):
        found.origin = "random"
    return found


def shows_chosen_first(key: str) -> bool:
    """Return whether the chosen answer of a pair is shown to people as A: for half of the pairs."""
    return int(key, 16) % 2 == 0


def stratum_of(record: PairRecord) -> str | None:
    """Return whether both orders agree; None without both verdicts."""
    if not record.has_both:
        return None
    return AGREE if record.chosen_first.result == record.chosen_second.result else DISAGREE


def choose_to_label(records: Sequence[PairRecord], labels: PeopleLabels) -> list[str]:
    """Return the keys of at most 100 pairs to label next, in random order."""
    by_stratum: dict[str | None, list[str]] = defaultdict(list)
    for record in first_pairs(records):
        if record.item not in labels.given:
            by_stratum[stratum_of(record)].append(record.item)
    keys = [by_stratum[name] for name in STRATA]
    counts = plan_labels([len(each) for each in keys], _ERROR_RATES, _TO_LABEL)
    random = Random(_SEED)
    chosen: list[str] = []
    for each, count in zip(keys, counts, strict=True):
        chosen += random.sample(each, count)
    random.shuffle(chosen)  # who stops early has labelled both strata alike
    return chosen


def people_quality(records: Sequence[PairRecord], labels: PeopleLabels) -> PeopleQuality:
    """Compare a judge with people's labels of its pairs."""
    pairs = {record.item: record for record in first_pairs(records)}
    results = {key: pair_result(record) for key, record in pairs.items()}
    decided = {key: result for key, result in results.items() if result is not None}
    # A judge whose orders agree is right more often.
    agrees = {key: float(stratum_of(pairs[key]) == AGREE) for key in decided}
    raters = sorted({rater for given in labels.given.values() for rater in given})
    people = {key: fmean(given.values()) for key, given in labels.given.items() if key in decided}
    right = {key: 1 - abs(decided[key] - value) for key, value in people.items()}
    both = [
        (_as_shown(credit_of_lead(mean - _EVEN), key), _as_shown(decided[key], key))
        for key, mean in people.items()
    ]
    table = [
        [_as_shown(given.get(rater), key) for rater in raters]
        for key, given in labels.given.items()
    ]
    strata: dict[str, str] | None = None
    if labels.origin != "unknown":
        strata = dict.fromkeys(decided, AGREE)
    if labels.origin == "strata":
        strata = {
            key: labels.strata.get(key) or stratum_of(pairs[key]) or _NO_STRATUM for key in decided
        }
    return PeopleQuality(
        raters=tuple(raters),
        labels=sum(map(len, labels.given.values())),
        pairs=len(people),
        origin=labels.origin,
        raters_alpha=agreement_of(table, krippendorff_alpha) if len(raters) > 1 else None,
        judge_equal=fmean(one == other for one, other in both) if both else None,
        judge_kappa=agreement_of(both, cohen_kappa),
        judge_accuracy=_estimate(right, agrees, strata),
        chosen_wins=_estimate(people, decided, strata),
    )


def first_pairs(records: Sequence[PairRecord]) -> Iterator[PairRecord]:
    """Yield the first pair of each line."""
    return (each for each in records if each.chosen_index == each.rejected_index == 0)


def _value_of(label: PersonLabel, key: str) -> float:
    """Return 1 for the chosen answer, 0 for the other one, 0.5 for a tie."""
    if label.label == "tie":
        return 0.5
    if label.label in ("chosen", "rejected"):
        return float(label.label == "chosen")
    return float((label.label == "A") == shows_chosen_first(key))


def _as_shown(value: float | None, key: str) -> float | None:
    """Return 1 for A and 0 for B: most people prefer the chosen answers, which would look like
    agreement by chance.
    """
    return value if value is None or shows_chosen_first(key) else 1 - value


def _estimate(
    truths: Mapping[str, float], verdicts: Mapping[str, float], strata: Mapping[str, str] | None
) -> LabelledMean | None:
    """Return the mean of what labels tell of some pairs, over all pairs that verdicts tell of; over
    the labelled ones if it is unknown how these were drawn.
    """
    if strata is None:
        return prediction_powered([*truths.values()], [0.0] * len(truths), [])
    found = []
    for stratum in sorted(set(strata.values()) - {_NO_STRATUM}):
        inside = [key for key in verdicts if strata[key] == stratum]
        labelled = [key for key in inside if key in truths]
        found.append(
            LabelStratum(
                [truths[key] for key in labelled],
                [verdicts[key] for key in labelled],
                [verdicts[key] for key in inside if key not in truths],
            )
        )
    return stratified(found) if found else None
