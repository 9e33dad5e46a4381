"""A scored group: its rollouts with rewards, and the comparisons behind them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """A rollout with its score, as `genrm score` wrote it; a number is None where it is unknown.

    Attributes:
        components: values by name.
        notes: what the rules and judges gave as reasons, by component.
    """

    rollout: Rollout
    index: int
    reward: float | None
    rank: int | None
    advantage: float | None
    standard_error: float | None
    status: str
    reason: str | None
    components: Mapping[str, float | None]
    notes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskedComparison:
    """One line of the comparisons file.

    Attributes:
        shown: indices of the rollouts in the order shown: two for a pair, one for a grading, more for a lineup.
        verdict: None for a failure and for grades.
        failure: kind and detail.
        neutralised: markers of the judge that were changed in the texts, by kind.
    """

    shown: tuple[int, ...]
    judge: str
    repeat: int
    verdict: Verdict | None
    failure: tuple[str, str] | None
    reply: str | None
    component: str | None
    grades: tuple[float, ...]
    neutralised: Mapping[str, Any]

    @property
    def is_pair(self) -> bool:
        """Whether two rollouts were compared for the reward's main part."""
        return len(self.shown) == 2 and self.component is None


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """The rollouts of one task by index, and the comparisons in the order of the file."""

    key: str
    rollouts: tuple[ScoredRollout, ...]
    comparisons: tuple[AskedComparison, ...]
    reliability: float | None
    is_baseline: bool
    judge: str | None

    @property
    def rewards(self) -> list[float]:
        """The rewards that are known."""
        return [each.reward for each in self.rollouts if each.reward is not None]


def parse_rollout(rollout: Rollout, score: Score) -> ScoredRollout:
    """Return a rollout with the score that its line holds."""
    detail = score.detail
    components = {str(name): _number(value) for name, value in _mapping(detail.get("components")).items()}
    reason, rank = detail.get("reason_text"), detail.get("rank")
    return ScoredRollout(
        rollout,
        index_of(detail),
        score.reward,
        rank if isinstance(rank, int) else None,
        _number(detail.get("advantage")),
        _number(detail.get("standard_error")),
        str(detail.get("status")),
        reason if isinstance(reason, str) else None,
        components,
        _mapping(detail.get("component_notes")),
    )


def index_of(detail: Mapping[str, Any]) -> int:
    """Return the index of a rollout in its group; -1 where the line does not say."""
    index = detail.get("index")
    return index if isinstance(index, int) else -1


def parse_group(
    key: str, rollouts: Sequence[ScoredRollout], detail: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> ScoredGroup:
    """Return a group.

    Args:
        key: its name.
        rollouts: with scores, in any order.
        detail: the `genrm` object of any of them.
        lines: its comparisons, as parsed from JSON.
    """
    judge = detail.get("judge")
    return ScoredGroup(
        key,
        tuple(sorted(rollouts, key=lambda each: each.index)),
        tuple(map(parse_comparison, lines)),
        _number(detail.get("reliability")),
        detail.get("is_baseline") is True,
        judge if isinstance(judge, str) else None,
    )


def parse_comparison(line: Mapping[str, Any]) -> AskedComparison:
    """Return one line of the comparisons file."""
    shown = line.get("shown") or [line.get("i"), line.get("j")]
    numbers = [_number(line.get(name)) for name in ("score_1", "score_2", "ranking")]
    known = [number for number in numbers if number is not None]
    failure = _mapping(line.get("failure"))
    reply, component = line.get("reply"), line.get("component")
    grades = line.get("grades")
    return AskedComparison(
        tuple(index for index in shown if isinstance(index, int)),
        str(line.get("judge")),
        repeat if isinstance(repeat := line.get("judge_idx"), int) else 0,
        Verdict(known[0], known[1], known[2]) if len(known) == 3 else None,
        (str(failure.get("kind")), str(failure.get("detail"))) if failure else None,
        reply if isinstance(reply, str) else None,
        component if isinstance(component, str) else None,
        tuple(number for each in grades if (number := _number(each)) is not None) if isinstance(grades, list) else (),
        _mapping(line.get("neutralised")),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]
