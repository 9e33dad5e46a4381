"""People's preferences between two policies, beside the verdicts of the judge.

    {"prompt": "What is a tide?", "a": "old", "b": "new", "rater": "ann", "label": "b",
     "drawn": "random"}

`prompt` is the text of the last turn that the policies answer, `label` is `a`, `b` or `tie`. With
few labels of prompts drawn at random, the win rate over all prompts has a valid interval, narrower
than that of the labels alone where the judge is good."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from genrm_cli.errors import InputError
from genrm_cli.metrics.prediction_powered import LabelledMean, prediction_powered
from genrm_cli.products.ranking.outcomes import Outcomes
from genrm_cli.products.ranking.pair_plan import Pair
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


def _nested() -> defaultdict[int, dict[str, float]]:
    return defaultdict(dict)


@dataclass(slots=True)
class PolicyLabels:
    """People's labels of a contest.

    Attributes:
        given: by the two policies and the prompt, the share that the first one wins by each rater.
        is_random: whether all prompts were drawn at random.
    """

    given: defaultdict[Pair, defaultdict[int, dict[str, float]]] = field(
        default_factory=lambda: defaultdict(_nested)
    )
    is_random: bool = True


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


def read_policy_labels(
    source: Source,
    policies: Sequence[str],
    prompts: Mapping[int, str],
    chosen: Mapping[int, Sequence[Pair]],
) -> PolicyLabels:
    """Read a file of labels of a contest.

    Args:
        prompts: the text of each prompt, by its number.
        chosen: the pairs of policies that are compared on each prompt.

    Raises:
        InputError: a line is not a label, is not about two policies that the contest compares, or
            contradicts another one of its rater; or there is no label.
    """
    numbers = {name: number for number, name in enumerate(policies)}
    places = {text: prompt for prompt, text in prompts.items()}
    found = PolicyLabels()
    for line in source.iter_lines():
        where = f"{source.uri}: line {line.number}"
        try:
            label = parse_json(PolicyLabel, line.raw)
        except ValueError as error:
            raise InputError(
                f"{where}: not a label ({error}); expected prompt, a, b, rater, and label: a, b or "
                "tie"
            ) from error
        place = places.get(label.prompt)
        if place is None:
            raise InputError(f"{where}: the prompt {label.prompt[:60]!r} is not in the ranking")
        first = numbers.get(label.a, -1)
        second = numbers.get(label.b, -1)
        pair = (min(first, second), max(first, second))
        if pair not in chosen[place]:
            raise InputError(
                f"{where}: the ranking does not compare {label.a!r} with {label.b!r} on this "
                f"prompt; its policies are {', '.join(policies)}"
            )
        value = _VALUES[label.label] if first < second else 1 - _VALUES[label.label]
        if found.given[pair][place].setdefault(label.rater, value) != value:
            raise InputError(
                f"{where}: {label.rater!r} labels this pair a second time, differently; keep one "
                "label"
            )
        found.is_random &= label.drawn == "random"
    if not found.given:
        raise InputError(f"{source.uri}: no labels; expected one a line")
    return found


def labelled_win_rates(
    outcomes: Outcomes, prompts: Sequence[int], labels: PolicyLabels
) -> tuple[LabelledWinRate, ...]:
    """Estimate the win rates of the pairs of policies that people labelled.

    Args:
        prompts: the number in the contest of each prompt of the outcomes.
        labels: of the contest.
    """
    shares = outcomes.win_shares()
    found = []
    for (a, b), by_prompt in sorted(labels.given.items()):
        won = dict(zip(prompts, shares[:, a, b].tolist(), strict=True))
        known = {prompt: share for prompt, share in won.items() if not math.isnan(share)}
        # A run that a limit stopped may have no verdict on a pair that people labelled.
        if not known:
            continue
        people = {
            prompt: fmean(given.values()) for prompt, given in by_prompt.items() if prompt in known
        }
        judged = [known[prompt] for prompt in people]
        unlabelled = [share for prompt, share in known.items() if prompt not in people]
        rate = LabelledWinRate(
            a=outcomes.table.policies[a],
            b=outcomes.table.policies[b],
            prompts=len(people),
            verdicts=fmean(known.values()),
            is_random=labels.is_random,
            people=prediction_powered(
                list(people.values()), judged, unlabelled if labels.is_random else []
            ),
        )
        found.append(rate)
    return tuple(found)
