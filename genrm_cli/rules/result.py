"""What a rule says about a session: a value, and what it rests on."""

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What a finding does to the value of its rule."""

    RAISES = "raises"
    LOWERS = "lowers"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class Fired:
    """One finding of a rule.

    Attributes:
        what: the name of what was found or is missing.
        phrase: the words that show it, in lower case; empty for something that is missing.
        turn: place in the transcript, from 0, system turns counted.
        effect: what it does to the value.
    """

    what: str
    phrase: str
    turn: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The value of a rule, 0 (worst) to 1, with its findings; None if the session cannot be judged by it."""

    value: float | None
    fired: tuple[Fired, ...] = ()


def within_unit(value: float) -> float:
    """Return the value moved into 0 to 1."""
    return min(1.0, max(0.0, value))
