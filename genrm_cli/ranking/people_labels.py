"""People's preferences between two policies, beside the verdicts of the judge.

    {"prompt": "What is a tide?", "a": "old", "b": "new", "rater": "ann", "label": "b",
     "drawn": "random"}

`prompt` is the text of the last turn that the policies answer, `label` is `a`, `b` or `tie`. With
few labels of prompts drawn at random, the win rate over all prompts has a valid interval, narrower
than that of the labels alone where the judge is good."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from genrm_cli.errors import InputError
from genrm_cli.metrics.prediction_powered import LabelledMean, prediction_powered
from genrm_cli.ranking.outcomes import Outcomes
from genrm_cli.scored.json_form import parse_json
from genrm_cli.storage.source import Source

_VALUES = {"a": 1.0, "b": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLabel:
    """One person's preference on one prompt; `drawn` is `random` for prompts drawn at random."""

    prompt: str
    a: str
    b: str
    rater: str
    label: Literal["a", "b", "tie"]
    drawn: Literal["random"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledWinRate:
    """How often people prefer policy `a` to `b`, over all prompts.

    Attributes:
        prompts: with labels and verdicts.
        verdicts: share won by the verdicts alone.
        is_random: whether the prompts were drawn at random. If not, the estimate uses the labels
            alone, and holds for prompts like these.
        people: None for fewer than four prompts.
    """

    a: str
    b: str
    prompts: int
    verdicts: float
    is_random: bool
    people: LabelledMean | None


def read_policy_labels(source: Source) -> list[PolicyLabel]:
    """Read a file of labels, or raise `InputError`."""
    labels = []
    for line in source.iter_lines():
        try:
            labels.append(parse_json(PolicyLabel, line.raw))
        except ValueError as error:
            raise InputError(
                f"{source.uri}: line {line.number}: not a label ({error}); expected prompt, a, b, "
                "rater, and label: a, b or tie"
            ) from error
    return labels


def labelled_win_rates(
    outcomes: Outcomes, prompts: Sequence[str], labels: Sequence[PolicyLabel], uri: str
) -> tuple[LabelledWinRate, ...]:
    """Estimate the win rates of the pairs of policies that people labelled.

    Args:
        prompts: the text of each prompt of the outcomes.
        labels: read from a file of this name.
    """
    policies = {name: number for number, name in enumerate(outcomes.table.policies)}
    places = {text: number for number, text in enumerate(prompts)}
    values: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for label in labels:
        unknown = [name for name in (label.a, label.b) if name not in policies]
        if unknown or label.prompt not in places:
            problem = repr(unknown[0]) if unknown else f"the prompt {label.prompt[:60]!r}"
            raise InputError(f"{uri}: {problem} is not in the ranking")
        a = policies[label.a]
        b = policies[label.b]
        value = _VALUES[label.label]
        pair = (a, b) if a < b else (b, a)
        values[pair][places[label.prompt]].append(value if a < b else 1 - value)
    is_random = all(label.drawn == "random" for label in labels)
    shares = outcomes.win_shares()
    found = []
    for a, b in sorted(values):
        won = {place: float(share) for place, share in enumerate(shares[:, a, b])}
        known = {place: share for place, share in won.items() if not math.isnan(share)}
        if known:
            people = {place: fmean(each) for place, each in values[a, b].items() if place in known}
            judged = [known[place] for place in people]
            unlabelled = [share for place, share in known.items() if place not in people]
            estimate = prediction_powered(
                list(people.values()), judged, unlabelled if is_random else []
            )
            found.append(
                LabelledWinRate(
                    a=outcomes.table.policies[a],
                    b=outcomes.table.policies[b],
                    prompts=len(people),
                    verdicts=fmean(known.values()),
                    is_random=is_random,
                    people=estimate,
                )
            )
    return tuple(found)
