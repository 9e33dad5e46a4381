"""The result of a rule: a value and the findings behind it."""

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """Effect of a finding on the value of its rule."""

    RAISES = "raises"
    LOWERS = "lowers"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class Fired:
    """One finding of a rule.

    Attributes:
        what: name of the thing found or missing.
        phrase: the words found, in lower case; empty for a missing thing.
        turn: index in the transcript, from 0; system turns count.
        effect: its effect on the value.
    """

    what: str
    phrase: str
    turn: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The value of a rule, 0 (worst) to 1, with its findings; None if the rule does not apply to the session."""

    value: float | None
    fired: tuple[Fired, ...] = ()


def within_unit(value: float) -> float:
    """Return the value clamped to 0 to 1."""
    return min(1.0, max(0.0, value))
